//! A short, repeatable part of what `make fuzz` does: its seeds, what it once found, and some thousand inputs made from them.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

#[path = "../fuzz/subjects/get_to_status.rs"]
mod get_to_status;
#[path = "../fuzz/subjects/yaml_to_body.rs"]
mod yaml_to_body;

use std::path::Path;

use arbitrary::{Result, Unstructured};

/// Inputs made from each seed.
const ROUNDS: u64 = 300;

/// Runs the seeds of a target, and each with pieces removed, repeated, replaced by words of the dictionary or by those of other seeds.
fn fuzz(target: &str, dictionary: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut paths: Vec<_> = folder.join("seeds").join(target).read_dir().unwrap().map(|f| f.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let dictionary = std::fs::read_to_string(folder.join(dictionary)).unwrap();
    let words: Vec<Vec<u8>> = dictionary.lines().filter(|l| !l.starts_with('#')).map(word).collect();
    assert!(seeds.len() > 1 && words.len() > 20, "{} seeds, {} words", seeds.len(), words.len());
    for (seed, path) in seeds.iter().zip(&paths) {
        run(seed);
        for round in 0..ROUNDS {
            // The choices of a round are the digits of a sequence that has no pattern.
            let choices: Vec<u8> =
                (0..96_u64).map(|i| scrambled(round << 32 | i << 8 | seed.len() as u64 & 0xff)).collect();
            let input = mutated(seed, &seeds, &words, &mut Unstructured::new(&choices)).unwrap();
            let failed = std::panic::catch_unwind(|| run(&input));
            assert!(failed.is_ok(), "{}, round {round}:\n{}", path.display(), String::from_utf8_lossy(&input));
        }
    }
}

fn mutated(seed: &[u8], seeds: &[Vec<u8>], words: &[Vec<u8>], choices: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut input = seed.to_vec();
    for _ in 0..choices.int_in_range(1..=4)? {
        let from = choices.int_in_range(0..=input.len())?;
        let to = choices.int_in_range(from..=input.len().min(from + 40))?;
        let put = match choices.int_in_range(0..=5)? {
            0 => Vec::new(),
            1 => input[from..to].repeat(3),
            2 => vec![choices.arbitrary()?],
            3 => {
                let other = choices.choose(seeds)?;
                let start = choices.int_in_range(0..=other.len())?;
                other[start..other.len().min(start + 60)].to_vec()
            }
            _ => choices.choose(words)?.clone(),
        };
        // A word is put in as often as it takes something's place.
        let to = if choices.arbitrary()? { to } else { from };
        input.splice(from..to, put);
    }
    Ok(input)
}

fn scrambled(number: u64) -> u8 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 56) as u8
}

/// A line of a dictionary: `"text"`, with `\"`, `\\` and `\x41`.
fn word(line: &str) -> Vec<u8> {
    let inner = line.strip_prefix('"').and_then(|l| l.strip_suffix('"')).expect("a word in quotes");
    let (mut word, mut rest) = (Vec::new(), inner.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                word.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                tail
            }
            (b'\\', [escaped @ (b'"' | b'\\'), tail @ ..]) => {
                word.push(*escaped);
                tail
            }
            _ => {
                word.push(*first);
                tail
            }
        };
    }
    word
}

#[test]
fn no_text_upsets_a_plan() {
    fuzz("yaml_to_body", "yaml.dict", yaml_to_body::run);
}

#[test]
fn no_answer_upsets_a_status() {
    fuzz("get_to_status", "json.dict", get_to_status::run);
}
