//! What in a document is a command: a text that begins with a program's name, behind variables for it.

/// Programs of ours and of others; those of ours in the tree begin with a folder.
const PROGRAMS: [&str; 9] = ["az", "cargo", "curl", "docker", "flotilla", "git", "helm", "kubectl", "make"];
const FOLDERS: [&str; 3] = ["scripts/", "target/debug/", "target/release/"];

/// Whether this is a command and no mere name of a program or a recipe's folder.
pub(crate) fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace().skip_while(|word| is_assignment(word));
    let Some(program) = words.next() else { return false };
    let argument = |word: &str| word.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '-');
    program == "make" || in_tree(program) || PROGRAMS.contains(&program) && words.next().is_some_and(argument)
}

/// Whether a block that begins with this line is for a shell.
pub(crate) fn begins_script(line: &str) -> bool {
    line.starts_with("export ") || is_command(line)
}

/// Whether it only says which subcommand, or which flag of it, is meant, as in "`kubectl apply` still works".
pub(crate) fn names_a_subcommand(script: &str) -> bool {
    let (flags, words): (Vec<&str>, Vec<&str>) = script.split_whitespace().partition(|word| word.starts_with("--"));
    let is_name = |text: &str| text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    let length = if script.starts_with("flotilla crds ") { 2..=3 } else { 2..=2 };
    length.contains(&words.len())
        && ["flotilla", "helm", "kubectl"].contains(&words[0])
        && words.iter().all(|word| is_name(word) && !word.starts_with('-'))
        && flags.iter().all(|flag| is_name(flag))
}

fn in_tree(program: &str) -> bool {
    FOLDERS.iter().any(|folder| program.strip_prefix(folder).is_some_and(|name| !name.is_empty()))
}

fn is_assignment(word: &str) -> bool {
    let upper =
        |name: &str| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_' || letter.is_ascii_digit());
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && upper(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_names() {
        for text in
            ["make", "make demo KEEP=1", "SEED=7 make test", "flotilla plan -f a.yaml", "scripts/setup", "az ad sp"]
        {
            assert!(is_command(text), "{text}");
        }
        for text in [
            "flotilla",
            "flotilla.dev/applied",
            "target/fuzz",
            "FLOTILLA_SHARED=x",
            "kubectl",
            "maker x",
            "target/debug/",
        ] {
            assert!(!is_command(text), "{text}");
        }
    }

    #[test]
    fn bare_subcommand_is_a_name() {
        for text in ["kubectl apply", "flotilla plan --diff", "flotilla crds print"] {
            assert!(names_a_subcommand(text), "{text}");
        }
        for text in
            ["kubectl get azure", "make demo", "flotilla plan -f x", "flotilla coordinator --crd-versions newest"]
        {
            assert!(!names_a_subcommand(text), "{text}");
        }
    }
}
