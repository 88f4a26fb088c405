//! Every kind and served version against the shape of ASO's CRD: paths, types, `required` and `enum`.
//!
//! `FLOTILLA_PARITY_GROUPS` restricts it to some groups, comma separated. Deviations are listed with their reasons in `deviations.tsv`; one that is not listed fails the test, and so does one that is listed and gone.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that reports")]

mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flotilla_crds::{Catalog, Kind};
use serde_json::Value;

/// Path, and what is said about it.
type Flat = BTreeMap<String, String>;

fn flatten(schema: &Value, path: &str, flat: &mut Flat) {
    let kind = if schema["x-kubernetes-preserve-unknown-fields"] == true {
        "any"
    } else {
        schema["type"].as_str().unwrap_or("?")
    };
    let values = schema["enum"].as_array().map(|values| {
        let mut values: Vec<String> =
            values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        values.sort_unstable();
        format!(" {}", values.join("|"))
    });
    flat.insert(path.to_owned(), format!("{kind}{}", values.unwrap_or_default()));
    for name in schema["required"].as_array().into_iter().flatten() {
        flat.insert(format!("{path}.{}!", name.as_str().unwrap()), "required".to_owned());
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        flatten(inner, &format!("{path}.{name}"), flat);
    }
    if schema["items"].is_object() {
        flatten(&schema["items"], &format!("{path}[]"), flat);
    }
    if schema["additionalProperties"].is_object() {
        flatten(&schema["additionalProperties"], &format!("{path}{{}}"), flat);
    }
}

/// One line per difference; what is below a path that is already named is left out.
fn compare(ours: &Value, theirs: &Value, root: &str) -> Vec<String> {
    let (mut a, mut b) = (Flat::new(), Flat::new());
    flatten(ours, root, &mut a);
    flatten(theirs, root, &mut b);
    let mut found: Vec<(String, String)> = Vec::new();
    for path in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
        let what = match (a.get(path), b.get(path)) {
            (Some(x), Some(y)) if x == y => continue,
            (Some(x), Some(y)) => format!("is {x}, not {y}"),
            (Some(x), None) => format!("added {x}"),
            (None, Some(y)) => format!("missing {y}"),
            (None, None) => continue,
        };
        let parent = |p: &str| {
            let rest = path.strip_prefix(p);
            rest.is_some_and(|rest| rest.starts_with(['.', '[', '{', '!']))
        };
        if !found.iter().any(|(p, w)| parent(p) && w.split(' ').next() == what.split(' ').next()) {
            found.push((path.clone(), what));
        }
    }
    found.into_iter().map(|(path, what)| format!("{path}\t{what}")).collect()
}

fn kind_differences(kind: &Kind, target: &Value, lines: &mut Vec<String>, counts: &mut [usize; 4]) {
    for (name, version) in target["versions"].as_object().unwrap() {
        let schema = &version["schema"];
        if !schema.is_object() {
            continue;
        }
        let about = format!("{}\t{}\t{name}", kind.group(), kind.name());
        let Some(ours) = kind.own_spec_schema(name) else {
            lines.push(format!("{about}\t\tno such version"));
            continue;
        };
        let status = kind.own_status_schema(name).unwrap();
        for (side, ours) in [("spec", ours), ("status", status)] {
            let at = if side == "spec" { 0 } else { 2 };
            let found = compare(&ours, &schema[side], side);
            counts[at] += 1;
            counts[at + 1] += usize::from(found.is_empty());
            lines.extend(found.into_iter().map(|line| format!("{about}\t{line}")));
        }
    }
    let names: BTreeSet<&String> = target["versions"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|v| target["versions"][v]["schema"].is_object())
        .collect();
    for version in kind.versions().iter().filter(|v| !names.contains(&v.name().to_owned())) {
        lines.push(format!("{}\t{}\t{}\t\tversion added", kind.group(), kind.name(), version.name()));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own switch")]
fn every_served_version_has_the_target_shape() {
    let Some(shared) = shared::folder() else { return };
    let wanted = std::env::var("FLOTILLA_PARITY_GROUPS").unwrap_or_else(|_| "*".to_owned());
    let wanted: Vec<&str> = wanted.split(',').collect();
    let (mut lines, mut counts, mut kinds) = (Vec::new(), [0; 4], 0);
    let mut files: Vec<_> = std::fs::read_dir(shared.join("parity/crds")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files {
        let target: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let (group, name) = (target["group"].as_str().unwrap(), target["names"]["kind"].as_str().unwrap());
        if !wanted.contains(&group) && wanted != ["*"] {
            continue;
        }
        let Some(kind) = Catalog::embedded().kind(group, name) else {
            lines.push(format!("{group}\t{name}\t\t\tno such kind"));
            continue;
        };
        kinds += 1;
        assert_eq!(kind.crd()["spec"]["names"], target["names"]);
        kind_differences(&kind, &target, &mut lines, &mut counts);
    }
    println!("{kinds} kinds; specs identical {} of {}, statuses {} of {}", counts[1], counts[0], counts[3], counts[2]);
    let listed = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deviations.tsv")).unwrap();
    let listed: BTreeSet<String> = listed
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| Some(l.rsplit_once('\t')?.0.to_owned()))
        .collect();
    let found: BTreeSet<String> = lines.iter().cloned().collect();
    let new: Vec<&String> = found.difference(&listed).collect();
    let gone: Vec<&String> =
        listed.difference(&found).filter(|l| wanted == ["*"] || wanted.iter().any(|g| l.starts_with(g))).collect();
    for line in &new {
        println!("new\t{line}");
    }
    for line in &gone {
        println!("gone\t{line}");
    }
    assert!(kinds > 0, "no kind of {wanted:?} was compared");
    assert!(
        new.is_empty() && gone.is_empty(),
        "{} deviations are not in tests/deviations.tsv, {} listed ones are gone",
        new.len(),
        gone.len()
    );
}
