//! "Did you mean": the known word that is nearest to an unknown one.

/// The candidate that was probably meant, if one is near enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    // Short words differ from everything by little; a third of the letters may be wrong, and two may always be.
    let allowed = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(words: &[T], joint: &str) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} {joint} {}", most.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_meant() {
        for (word, meant) in [
            ("loaction", Some("location")),
            ("StorageAcount", None),
            ("skus", Some("sku")),
            ("LOCATION", Some("location")),
            ("xyz", None),
        ] {
            assert_eq!(nearest(word, ["location", "sku", "tags"]), meant, "{word}");
        }
    }

    #[test]
    fn words_are_listed_as_people_do() {
        assert_eq!(listed(&["a"], "or"), "a");
        assert_eq!(listed(&["a", "b", "c"], "or"), "a, b or c");
    }
}
