//! What the demo applies.

use anyhow::{Context as _, Result};
use kube::api::DynamicObject;

use flotilla_testbed::cluster::parse;

const STARTER_KIT: &str = include_str!("../manifests/starter-kit.yaml");
const TEAM: &str = include_str!("../manifests/team.yaml");
const TEAMS: [&str; 6] = ["amber", "birch", "coral", "denim", "ember", "flint"];
const STARTER_KIT_NAMESPACE: &str = "starter-kit";

/// All objects of the demo, and the text they come from.
#[derive(Debug)]
pub(super) struct Manifests {
    yaml: String,
    objects: Vec<DynamicObject>,
    starter_kit: usize,
}

impl Manifests {
    pub(super) fn load() -> Result<Self> {
        let starter_kit = parse(STARTER_KIT)?;
        let mut objects = starter_kit.clone();
        let mut texts = vec![STARTER_KIT.to_owned()];
        for team in TEAMS {
            let text = TEAM.replace("$TEAM", team);
            objects.extend(parse(&text).with_context(|| format!("team {team}"))?);
            texts.push(text);
        }
        Ok(Self { yaml: texts.join("\n---\n"), objects, starter_kit: starter_kit.len() })
    }

    /// Every namespace that the objects live in.
    pub(super) fn namespaces() -> impl Iterator<Item = &'static str> {
        TEAMS.into_iter().chain([STARTER_KIT_NAMESPACE])
    }

    pub(super) fn yaml(&self) -> &str {
        &self.yaml
    }

    pub(super) fn objects(&self) -> &[DynamicObject] {
        &self.objects
    }

    /// How many there are beside the starter kit.
    pub(super) fn others(&self) -> usize {
        self.objects.len() - self.starter_kit
    }

    pub(super) fn container_app(&self) -> &DynamicObject {
        &self.objects[self.starter_kit - 1]
    }

    pub(super) fn resource_groups(&self) -> impl Iterator<Item = &DynamicObject> {
        self.objects.iter().filter(|object| object.types.as_ref().is_some_and(|types| types.kind == "ResourceGroup"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_applies_the_starter_kit_and_sixty_more() {
        let manifests = Manifests::load().unwrap();
        assert_eq!((manifests.starter_kit, manifests.others()), (3, 60));
        assert_eq!(manifests.container_app().types.as_ref().unwrap().kind, "ContainerApp");
    }
}
