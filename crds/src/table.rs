//! Our tables: lines with cells between tabs.
//!
//! Kept true here: every reader of a table skips the same lines and trims the same blanks.

/// The lines with their numbers, from 1, and cells; empty lines and those that begin with `#` are left out.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(i, line)| (i + 1, line.split('\t').map(str::trim).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_left_out_and_cells_trimmed() {
        let rows: Vec<_> = rows("# head\n\na\t b\t\n").collect();
        assert_eq!(rows, [(3, vec!["a", "b", ""])]);
    }
}
