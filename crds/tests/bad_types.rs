//! Type data and tables that are not what they should be: an error names the file, the type or line, and the rule; nothing panics or runs for ever.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use flotilla_crds::{ImportError, import};

const TYPES: &str = "types/s/microsoft.a/2024-01-01/types.json";
const KINDS: &str = "data/kinds.tsv";
const FACTS: &str = "data/facts/a.azure.com.tsv";
const KIND: &str = "a.azure.com\tB\tbs\tMicrosoft.A/bs\tv20240101\tv20240101\n";

/// A file of types whose body is the type with index 1.
fn types(more: &str) -> String {
    let resource =
        r##"{"$type":"ResourceType","name":"Microsoft.A/bs@2024-01-01","body":{"$ref":"#/1"},"writableScopes":8}"##;
    format!("[{resource},{more}]")
}

/// An object with these properties; `p:3` has the type with index 3.
fn object(name: &str, properties: &str) -> String {
    let members: Vec<String> = properties
        .split_whitespace()
        .map(|p| {
            let (name, node) = p.split_once(':').unwrap();
            format!(r##""{name}":{{"type":{{"$ref":"#/{node}"}},"flags":0}}"##)
        })
        .collect();
    format!(r#"{{"$type":"ObjectType","name":"{name}","properties":{{{}}}}}"#, members.join(","))
}

/// Imports a folder with one good kind and the given files in place of its own.
fn imported(files: &[(&str, String)]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let good = [
        (
            TYPES,
            types(&(object("B", "properties:2") + "," + &object("BProperties", "x:3") + r#",{"$type":"StringType"}"#)),
        ),
        (KINDS, KIND.to_owned()),
        (FACTS, String::new()),
        ("data/exports.tsv", String::new()),
        ("data/payload.tsv", String::new()),
        ("data/further.tsv", String::new()),
        ("data/types/README.md", String::new()),
    ];
    for (name, text) in good.iter().chain(files) {
        write(&folder.path().join(name), text).unwrap();
    }
    let run = import(&folder.path().join("types"), &folder.path().join("data"), &[]);
    let text = |error: ImportError| chain(&error).replace(&folder.path().display().to_string(), "");
    run.map(|imported| imported.report.to_string()).map_err(text)
}

fn write(path: &PathBuf, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, text)
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or(error.to_string(), |source| format!("{error}: {}", chain(source)))
}

const STRING: &str = r#"{"$type":"StringType"}"#;

/// So many types, each made from its number and joined.
fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    types(&((1..count).map(one).collect::<Vec<_>>().join(",") + "," + STRING))
}

/// Every wrong input is refused, and says where.
fn refused<'a>(file: &str, told: &str, cases: impl IntoIterator<Item = (String, &'a str)>) {
    let mut wrong = String::new();
    for (text, expected) in cases {
        let expected = format!("/{file}{told}{expected}");
        let got = imported(&[(file, text)]);
        if !got.as_ref().is_err_and(|error| error.starts_with(&expected)) {
            writeln!(wrong, "expected {expected}\ngot      {got:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_good_ones_are_imported() {
    for files in [vec![], vec![(KINDS, KIND.replace('\n', "\r\n"))], vec![(TYPES, types(&object("B", "a:1 b:1")))]] {
        assert!(imported(&files).is_ok_and(|report| report.starts_with("1 kinds")), "{:?}", imported(&files));
    }
}

#[test]
fn what_is_no_list_of_types_is_refused() {
    let head = ": not a list of types: ";
    refused(
        TYPES,
        head,
        [
            (String::new(), "EOF while parsing a value at line 1 column 0"),
            (types(STRING)[..60].to_owned(), "EOF while parsing a value at line 1 column 60"),
            ("{}".to_owned(), "invalid type: map"),
            (types(STRING) + "\0", "trailing characters"),
            (format!("[{{\"$type\":\"AnyType\",\"x\":{}", "[".repeat(100_000)), "recursion limit exceeded"),
            (types(r#"{"$type":"FooType"}"#), "unknown variant `FooType`"),
            (types(r#"{"name":"FooType"}"#), "missing field `$type`"),
            (
                types(STRING).replace("#/1", "../x.json#/1"),
                "\"../x.json#/1\" is not a reference to a type of the same file",
            ),
            (types(STRING).replace("#/1", "#/-1"), "\"#/-1\" is not a reference"),
            (types(&object("B", "a:1 a:1")), "\"a\" appears twice"),
            (types(&object("B", "a:1").replace("\"flags\":0", "\"flags\":-1")), "invalid value: integer `-1`"),
        ],
    );
}

#[test]
fn types_that_break_a_rule_are_refused() {
    let union = |element: u8| {
        format!(
            r##"{{"$type":"DiscriminatedObjectType","name":"B","discriminator":"k","elements":{{"x":{{"$ref":"#/{element}"}}}}}},{STRING}"##
        )
    };
    let with = |more: &str| types(&(object("B", "a:2") + "," + more));
    let list = |item: usize| format!(r##"{{"$type":"ArrayType","itemType":{{"$ref":"#/{item}"}}}}"##);
    refused(
        TYPES,
        ": type Microsoft.A/bs@2024-01-01: ",
        [
            (types(STRING).replace("#/1", "#/99"), "it refers to type 99, and the file has 2"),
            (with(&list(7)), "it refers to type 7, and the file has 3"),
            (types(STRING), "its body is not an object"),
            (types(STRING).replace("#/1", "#/0"), "its body is not an object"),
            (types(&object("B", "a:0")), "type 0 is a resource and can't be nested"),
            (types(&union(1)), "alternative x of B is not an object"),
            (types(&union(2)), "alternative x of B is not an object"),
            (with(&list(2)), "it has more than 150 levels of fields, or a list of itself"),
            (with(&(list(3) + "," + &list(2))), "it has more than 150 levels of fields, or a list of itself"),
            (
                with(r#"{"$type":"IntegerType","minValue":5,"maxValue":1}"#),
                "one of its types is at least 5 and at most 1",
            ),
            (
                many(20_000, |i| object(&format!("O{i}"), &format!("a:{}", i + 1))),
                "its types nest deeper than 100 levels",
            ),
            (
                many(40, |i| object(&format!("O{i}"), &format!("a:{0} b:{0}", i + 1))),
                "it unfolds to more than 100000 fields",
            ),
            (
                many(25, |i| object(&format!("O{i}"), &format!("a:{} b:{}", i % 24 + 1, (i + 5) % 24 + 1))),
                "it unfolds to more",
            ),
        ],
    );
    let error = imported(&[(TYPES, types(STRING).replace("bs@", "bs"))]).unwrap_err();
    assert!(error.ends_with("type Microsoft.A/bs2024-01-01: a resource type's name is type@version"), "{error}");
}

#[test]
fn lines_of_tables_that_break_a_rule_are_refused() {
    refused(
        KINDS,
        ":",
        [
            ("a\tb\n".to_owned(), "1: expected 6 columns separated by tabs, found 2"),
            (KIND.repeat(2), "2: line 1 has a.azure.com/B (bs) already"),
            (KIND.to_owned() + &KIND.replace("\tB\t", "\tC\t"), "2: line 1 has a.azure.com/B (bs) already"),
            (KIND.replace("v20240101\tv", "v20240101,v20240101\tv"), "1: version v20240101 appears twice"),
            (KIND.replace("v20240101\n", "v20230101\n"), "1: the hub v20230101 is not one of the versions"),
            (KIND.replace("20240101", "20990101"), "1: no types.json has Microsoft.A/bs@2099-01-01"),
            (KIND.replace("v20240101", "newest"), "1: version newest does not name an api-version"),
            (KIND.replace("a.azure.com", ""), "1: \"\" can't be the group"),
            (format!("\u{feff}{KIND}"), "1: \"\\u{feff}a.azure.com\" can't be the group"),
            (KIND.replace("\tB\t", "\tB b\t"), "1: \"B b\" can't be the kind"),
            (KIND.replace("\tbs\t", "\tBs\t"), "1: \"Bs\" can't be the plural"),
            (KIND.replace("/bs", ""), "1: \"Microsoft.A\" can't be the ARM type"),
        ],
    );
    let fact = |cells: &str| cells.replace(' ', "\t") + "\n";
    refused(
        FACTS,
        ":",
        [
            (fact("a b"), "1: expected 7 columns separated by tabs, found 2"),
            (fact("* * BProperties x secrte  why"), "1: unknown fact \"secrte\""),
            (fact("* * BProperties x secret  "), "1: a fact needs a reason in its last column"),
            (fact("C * BProperties x secret  why"), "1: the kind a.azure.com/C does not exist"),
            (fact("* >=new BProperties x secret  why"), "1: \"new\" is not an api-version, * or a bound of one"),
            (fact("*  BProperties x secret  why"), "1: \"\" is not an api-version, * or a bound of one"),
            (fact("* *  x secret  why"), "1: a fact is about a type and a property, or *"),
            (fact("* * BProperties x secret yes why"), "1: fact secret takes no value, and \"yes\" is one"),
            (fact("* * BProperties x secret/spec  why"), "1: fact secret holds for spec and status alike"),
            (fact("* * BProperties x drop/body  why"), "1: side \"body\" is neither spec nor status"),
            (fact("* * BProperties x rename  why"), "1: fact rename needs a value"),
            (fact("* * BProperties x rename a.b why"), "1: \"a.b\" is not the name of a field"),
            (fact("* * BProperties x values a||b why"), "1: \"a||b\" is not a list of values joined by |"),
            (fact("* * BProperties x secret  why").repeat(2), "2: line 1 says the same"),
        ],
    );
    let export = |cells: &str| cells.replace(' ', "\t") + "\n";
    refused(
        "data/exports.tsv",
        ":",
        [
            (export("a.azure.com C secret k * status:x"), "1: the kind a.azure.com/C does not exist"),
            (export("a.azure.com B secrets k * status:x"), "1: target \"secrets\" is neither secret nor config-map"),
            (export("a.azure.com B secret k v1 status:x"), "1: B has no version v1"),
            (export("a.azure.com B secret k * status:x").repeat(2), "2: secret k of B appears twice"),
        ],
    );
    refused(
        "data/payload.tsv",
        ":",
        [
            (export("a.azure.com C * null why"), "1: the kind a.azure.com/C does not exist"),
            (export("a.azure.com B x null why"), "1: the rule is null (of all fields, *) or empty (of one field)"),
            (export("a.azure.com B * null "), "1: a rule needs a reason in its last column"),
        ],
    );
}
