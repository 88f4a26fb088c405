//! Azure's type data as they are published: folders of `types.json`, each a list of types that name each other by index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::Error;

/// A type as published. What is not needed is not read.
#[expect(clippy::enum_variant_names, reason = "the names that the data have")]
#[derive(Debug, Deserialize)]
#[serde(tag = "$type", rename_all_fields = "camelCase")]
pub(super) enum RawType {
    ObjectType {
        name: String,
        #[serde(default)]
        properties: Ordered<RawProp>,
        additional_properties: Option<Ref>,
        #[serde(default)]
        sensitive: bool,
    },
    DiscriminatedObjectType {
        name: String,
        discriminator: String,
        #[serde(default)]
        base_properties: Ordered<RawProp>,
        elements: Ordered<Ref>,
    },
    ArrayType {
        item_type: Ref,
        min_length: Option<u64>,
        max_length: Option<u64>,
    },
    UnionType {
        elements: Vec<Ref>,
    },
    StringLiteralType {
        value: String,
    },
    StringType {
        pattern: Option<String>,
        min_length: Option<u64>,
        max_length: Option<u64>,
        #[serde(default)]
        sensitive: bool,
    },
    IntegerType {
        min_value: Option<i64>,
        max_value: Option<i64>,
    },
    BooleanType {},
    AnyType {},
    NullType {},
    ResourceType {
        name: String,
        body: Ref,
        #[serde(default)]
        writable_scopes: u32,
    },
    ResourceFunctionType {
        name: String,
        resource_type: String,
        api_version: String,
        output: Ref,
    },
}

#[derive(Debug, Deserialize)]
pub(super) struct RawProp {
    #[serde(rename = "type")]
    pub(super) node: Ref,
    #[serde(default)]
    pub(super) flags: u32,
    #[serde(default)]
    pub(super) description: String,
}

/// `{"$ref": "#/12"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "RefText")]
pub(super) struct Ref(pub(super) usize);

#[derive(Deserialize)]
struct RefText {
    #[serde(rename = "$ref")]
    text: String,
}

impl TryFrom<RefText> for Ref {
    type Error = String;

    fn try_from(text: RefText) -> Result<Self, String> {
        let number = text.text.strip_prefix("#/").and_then(|n| n.parse().ok());
        number.map(Self).ok_or_else(|| format!("{:?} is not a reference to a type of the same file", text.text))
    }
}

/// A JSON object whose members keep their order.
#[derive(Debug)]
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, T)> = Vec::new();
                while let Some((name, member)) = map.next_entry()? {
                    if members.iter().any(|(known, _)| *known == name) {
                        return Err(serde::de::Error::custom(format!("{name:?} appears twice")));
                    }
                    members.push((name, member));
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(Visitor(std::marker::PhantomData))
    }
}

/// A resource type of a file.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    /// As Azure spells it.
    pub(super) arm_type: String,
    pub(super) api_version: String,
    pub(super) body: Ref,
    /// Scopes at which it can be written; 0 for read-only types.
    pub(super) writable: u32,
}

/// One `types.json`.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) types: Vec<RawType>,
    pub(super) resources: Vec<Resource>,
}

impl File {
    fn read(path: &Path) -> Result<Self, Error> {
        let bytes =
            std::fs::read(path).map_err(|source| Error::File { action: "read", path: path.to_owned(), source })?;
        let types: Vec<RawType> =
            serde_json::from_slice(&bytes).map_err(|source| Error::Json { path: path.to_owned(), source })?;
        let mut resources = Vec::new();
        for raw in &types {
            if let RawType::ResourceType { name, body, writable_scopes } = raw {
                let (arm_type, api_version) = name.split_once('@').ok_or_else(|| Error::Type {
                    path: path.to_owned(),
                    arm_type: name.clone(),
                    rule: "a resource type's name is type@version".to_owned(),
                })?;
                let (arm_type, api_version) = (arm_type.to_owned(), api_version.to_owned());
                resources.push(Resource { arm_type, api_version, body: *body, writable: *writable_scopes });
            }
        }
        Ok(Self { path: path.to_owned(), types, resources })
    }

    /// The type that a reference names.
    pub(super) fn get(&self, reference: Ref, of: &str) -> Result<&RawType, Error> {
        self.types.get(reference.0).ok_or_else(|| Error::Type {
            path: self.path.clone(),
            arm_type: of.to_owned(),
            rule: format!("it refers to type {}, and the file has {}", reference.0, self.types.len()),
        })
    }
}

/// Where the type data lie: files by provider and api-version, read when first wanted.
pub(super) struct Library {
    files: HashMap<(String, String), Vec<PathBuf>>,
    read: HashMap<PathBuf, Arc<File>>,
    /// Files that are not in the folder.
    own: HashMap<PathBuf, Arc<File>>,
}

impl Library {
    /// Lists the files of a folder `…/<service>/<provider>/<api-version>/types.json`.
    pub(super) fn index(folder: &Path) -> Result<Self, Error> {
        let mut files: HashMap<(String, String), Vec<PathBuf>> = HashMap::new();
        for service in list(folder)? {
            for provider in list(&service)? {
                for version in list(&provider)? {
                    let file = version.join("types.json");
                    if file.is_file() {
                        files.entry((name(&provider), name(&version))).or_default().push(file);
                    }
                }
            }
        }
        if files.is_empty() {
            let source = std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "no <service>/<provider>/<api-version>/types.json below it",
            );
            return Err(Error::File { action: "find type data in", path: folder.to_owned(), source });
        }
        for paths in files.values_mut() {
            paths.sort();
        }
        Ok(Self { files, read: HashMap::new(), own: HashMap::new() })
    }

    /// All providers, lower case.
    pub(super) fn providers(&self) -> BTreeSet<String> {
        self.files.keys().map(|(provider, _)| provider.clone()).collect()
    }

    /// The api-versions of a provider, oldest first, each with the types that can be written, as they are spelt there.
    pub(super) fn writable(&mut self, provider: &str) -> Result<Vec<(String, BTreeSet<String>)>, Error> {
        let of_provider = self.files.keys().filter(|(p, _)| p == provider);
        let versions: BTreeSet<String> = of_provider.map(|(_, version)| version.clone()).collect();
        let mut all = Vec::new();
        for version in versions {
            let mut types = BTreeMap::new();
            for path in self.files.get(&(provider.to_owned(), version.clone())).cloned().unwrap_or_default() {
                for resource in
                    self.file(&path)?.resources.iter().filter(|r| r.writable != 0 && r.api_version == version)
                {
                    types.entry(resource.arm_type.to_ascii_lowercase()).or_insert_with(|| resource.arm_type.clone());
                }
            }
            all.push((version, types.into_values().collect()));
        }
        Ok(all)
    }

    /// Lets go of the files that were read from the folder.
    pub(super) fn forget(&mut self) {
        self.read.retain(|path, _| path.extension().is_some_and(|e| e != "json"));
    }

    fn file(&mut self, path: &Path) -> Result<Arc<File>, Error> {
        if let Some(file) = self.own.get(path).or_else(|| self.read.get(path)) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(File::read(path)?);
        self.read.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Adds a file that is not in the folder, for the resource types that it has.
    pub(super) fn add(&mut self, file: &Arc<File>) {
        for resource in &file.resources {
            let key = (provider(&resource.arm_type), resource.api_version.to_ascii_lowercase());
            self.files.entry(key).or_default().push(file.path.clone());
        }
        self.own.insert(file.path.clone(), Arc::clone(file));
    }

    /// The answer of a resource type's POST action.
    pub(super) fn action(&mut self, of: &str, version: &str, action: &str) -> Result<Option<(Arc<File>, Ref)>, Error> {
        let paths = self.files.get(&(provider(of), version.to_ascii_lowercase())).cloned().unwrap_or_default();
        for path in paths {
            let file = self.file(&path)?;
            let found = file.types.iter().find_map(|raw| match raw {
                RawType::ResourceFunctionType { name, resource_type, api_version, output } => {
                    (name == action && resource_type.eq_ignore_ascii_case(of) && api_version == version)
                        .then_some(*output)
                }
                _ => None,
            });
            if let Some(output) = found {
                return Ok(Some((file, output)));
            }
        }
        Ok(None)
    }

    /// The file and resource type, whose letter case does not matter. Where several files have it, one in which it can be written wins, then the
    /// first by path.
    pub(super) fn find(&mut self, arm_type: &str, api_version: &str) -> Result<Option<(Arc<File>, Resource)>, Error> {
        let paths =
            self.files.get(&(provider(arm_type), api_version.to_ascii_lowercase())).cloned().unwrap_or_default();
        let mut best: Option<(Arc<File>, Resource)> = None;
        for path in paths {
            let file = self.file(&path)?;
            let found = file
                .resources
                .iter()
                .find(|r| r.arm_type.eq_ignore_ascii_case(arm_type) && r.api_version == api_version);
            if let Some(found) = found
                && best.as_ref().is_none_or(|(_, b)| b.writable == 0 && found.writable != 0)
            {
                best = Some((Arc::clone(&file), found.clone()));
            }
        }
        Ok(best)
    }
}

pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let fail = |source| Error::File { action: "list", path: folder.to_owned(), source };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        paths.push(entry.map_err(fail)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn provider(arm_type: &str) -> String {
    arm_type.split('/').next().unwrap_or_default().to_ascii_lowercase()
}

fn name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}
