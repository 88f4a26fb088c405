//! What Kubernetes accepts as names.

/// Why a text can't be the name of an object.
pub(crate) fn name(text: &str) -> Result<(), &'static str> {
    let fits = (1..=253).contains(&text.len()) && text.split('.').all(is_label);
    if fits {
        Ok(())
    } else {
        Err("must have at most 253 small letters, digits, - and ., with a letter or digit at both ends of each part")
    }
}

/// Why a text can't be the name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<(), &'static str> {
    let fits = text.len() <= 63 && is_label(text);
    if fits {
        Ok(())
    } else {
        Err("must have at most 63 small letters, digits and -, with a letter or digit at both ends")
    }
}

fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.bytes().all(|b| plain(b) || b == b'-')
        && text.bytes().next().is_some_and(plain)
        && text.bytes().next_back().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        for good in ["a", "a-b.c", "0", "xn--bcher-kva.example"] {
            assert_eq!(name(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "ä", &"a".repeat(254)] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert!(namespace("a.b").is_err() && namespace(&"a".repeat(64)).is_err() && namespace("team-a").is_ok());
    }
}
