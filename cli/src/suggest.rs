//! "Did you mean": the known word that is nearest to an unknown one.

/// So many candidates are compared: in a longer list the nearest is not worth the wait.
const MOST: usize = 1_000;
/// A message lists so many values at most.
pub(crate) const LISTED: usize = 10;

/// The candidate that was probably meant, if one is near enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let length = word.chars().count();
    // Short words differ from everything by little; a third of the letters may be wrong, and two may always be.
    let allowed = (length / 3).max(2);
    candidates
        .into_iter()
        .take(MOST)
        // A difference in length is as many wrong letters. Comparing takes the product of both lengths.
        .filter(|candidate| candidate.len() < MOST && candidate.chars().count().abs_diff(length) <= allowed)
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
    fn huge_words_and_lists_cost_nothing() {
        let (huge, many) = ("x".repeat(1 << 22), vec!["locatoin"; 1 << 20]);
        assert_eq!(nearest(&huge, [huge.as_str(), "location"]), None);
        assert_eq!(nearest("location", many.into_iter().chain(["location"])), Some("locatoin"));
    }

    #[test]
    fn words_are_listed_as_people_do() {
        assert_eq!(listed(&["a"], "or"), "a");
        assert_eq!(listed(&["a", "b", "c"], "or"), "a, b or c");
    }
}
