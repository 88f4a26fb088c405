//! The regions of the public cloud.

use std::sync::LazyLock;

use super::profile::rows;

/// A region: its name in ids and bodies, and the name that some services echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) name: &'static str,
    pub(crate) display: &'static str,
}

static REGIONS: LazyLock<Vec<Region>> = LazyLock::new(|| {
    rows(include_str!("../data/arm-regions.tsv")).map(|row| Region { name: row[0], display: row[1] }).collect()
});

/// All regions.
pub(crate) fn all() -> &'static [Region] {
    &REGIONS
}

/// The region of a name in either form, whatever its casing.
pub(crate) fn find(name: &str) -> Option<Region> {
    let name = normal(name);
    REGIONS.iter().find(|region| region.name == name).copied()
}

/// A location as ids write it.
pub(crate) fn normal(location: &str) -> String {
    location.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()).collect()
}

/// How refusals list the regions.
pub(crate) fn list() -> String {
    REGIONS.iter().map(|region| region.name).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_name_find_the_region() {
        assert_eq!(find("West US 2"), find("westus2"));
        assert_eq!(find("WestUS2").map(|region| region.display), Some("West US 2"));
        assert_eq!(find("BadLocation"), None);
        assert!(all().iter().all(|region| normal(region.display) == region.name));
    }
}
