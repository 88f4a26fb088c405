//! Files that are not valid manifests: each problem is reported with file, line and field on a line of its own, soon, and without harm to other files.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "shared/program.rs"]
mod program;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use program::flotilla;

const GROUP: &str = "apiVersion: resources.azure.com/v1api20200601\nkind: ResourceGroup\nmetadata:\n  name: rg\nspec:\n  location: westus\n";

fn group(from: &str, to: &str) -> String {
    assert!(GROUP.contains(from), "{from}");
    GROUP.replace(from, to)
}

/// Plans a text; the errors, less the note about the subscription.
fn plan(text: &[u8]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, text).unwrap();
    let ran = flotilla(&["plan", "-o", "json", "--subscription", "s", "-f", path.to_str().unwrap()], "");
    assert!(serde_json::from_str::<serde_json::Value>(&ran.out).is_ok(), "{}", ran.out);
    (ran.code, ran.err.replace(path.to_str().unwrap(), "F"))
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_field() {
    let cases: Vec<(Vec<u8>, &[&str])> = [
        // Texts.
        ("\u{feff}".to_owned() + GROUP, &[][..]),
        (GROUP.replace('\n', "\r\n"), &[]),
        (group("  location", "\tlocation"), &["F:6:2: not valid YAML: tabs"]),
        (group("westus", "west\0us"), &["F:6:17: not valid YAML: unexpected character"]),
        (GROUP.replace('\n', "\r\n").replace("location", "loaction"), &["F:6:3: ResourceGroup/default/rg: spec.loaction: no such field"]),
        (String::new(), &["F: the file contains no object"]),
        ("# nothing\n---\n".to_owned(), &["F: the file contains no object"]),
        (group("westus", "{{ .Values.place }}"), &["F:6:14: not valid YAML: a key must be a string; this is a template"]),
        (format!("{{{{- if .Values.x }}}}\n{GROUP}{{{{- end }}}}\n"), &["F:1:3: not valid YAML: \"-\" is only valid inside a block; this is a template"]),
        (group("westus", "\"C:\\Users\\x\""), &["F:6:13: not valid YAML: while parsing a quoted scalar"]),
        ("{\"apiVersion\": \"v1\",\n \"kind\": ".to_owned(), &["F:1:1: not valid YAML"]),
        // Documents.
        (
            format!("{GROUP}---\na: [1,\n---\n{}---\nb: c: d\n---\n{}", group("rg", "b"), group("location", "x")),
            &["F:8:4: not valid YAML", "F:17:5: not valid YAML", "F:24:3: ResourceGroup/default/rg: spec.x: no such field"],
        ),
        (format!("x: &x 1\n---\n{}", group("westus", "*x")), &["F:8:13: not valid YAML: this document defines no such anchor", "F:1:1: apiVersion is missing"]),
        (format!("{GROUP}spec: {{}}\n"), &["F:7:1: not valid YAML: the key spec appears twice"]),
        ("5\n---\ntrue\n---\n[]\n".to_owned(), &["F:1:1: a manifest must be a map", "F:3:1: a manifest must be a map", "F:5:1: a manifest must be a map"]),
        // The envelope.
        (group("resources.azure.com/v1api20200601", "5"), &["F:1:1: apiVersion: must be a string, not 5"]),
        (group("ResourceGroup", "[x]"), &["F:2:1: kind: must be a string, not a list"]),
        (group("/v1api20200601", ""), &["F:1:1: ResourceGroup: apiVersion: \"resources.azure.com\" has no version"]),
        (group("resources.azure", "Resources.Azure"), &["F:1:1: ResourceGroup/default/rg: no API group Resources.Azure.com; did you mean \"resources.azure.com\"?"]),
        (group("azure.com", "azur.com"), &["F:1:1: ResourceGroup/default/rg: no API group resources.azur.com; did you mean \"resources.azure.com\"?"]),
        (group("ResourceGroup", "\"Resource\\nGroup\""), &["F:2:1: Resource\\nGroup/default/rg: resources.azure.com has no kind Resource\\nGroup; did you mean \"ResourceGroup\"?"]),
        (group("metadata:\n  name: rg", "metadata: x"), &["F:3:11: ResourceGroup/default/: metadata: must be a map, not the string \"x\""]),
        (group("name: rg", "name: {a: b}"), &["F:4:3: ResourceGroup: metadata.name: must be a string, not a map"]),
        (group("name: rg", "name: A_b"), &["F:4:9: ResourceGroup/default/A_b: metadata.name: must have at most 253 small letters"]),
        (group("rg", "rg\n  namespace: a.b"), &["F:5:14: ResourceGroup/a.b/rg: metadata.namespace: must have at most 63"]),
        (group("rg", "rg\n  annotations: {a: true}"), &["F:5:20: ResourceGroup/default/rg: metadata.annotations[a]: must be a string, not true; write it in quotes"]),
        (group("rg", "rg\n  labels: [a]"), &["F:5:11: ResourceGroup/default/rg: metadata.labels: must be a map, not a list"]),
        (group("rg", "rg\n  finalizers: [1]"), &["F:5:16: ResourceGroup/default/rg: metadata.finalizers[0]: must be a string, not 1"]),
        ("apiVersion: v1\nkind: List\nitems:\n- 5\n- kind: x\n".to_owned(), &["F:4:3: a manifest must be a map", "F:5:3: apiVersion is missing"]),
        ("apiVersion: v1\nkind: List\n".to_owned(), &["F:1:1: items: a List must have a list of items"]),
        // The spec.
        (group("\n  location: westus", " x"), &["F:5:7: ResourceGroup/default/rg: spec: must be a map, not the string \"x\""]),
        (group("westus", "123456789012345678901234567890"), &["F:6:13: ResourceGroup/default/rg: spec.location: must be a string, not 1"]),
        (group("westus", "1e400"), &["F:6:13: not valid YAML: 1e400 is not a number that JSON can hold"]),
        (group("westus", "!!binary '%'"), &["F:6:22: not valid YAML: invalid !!binary"]),
        (group("westus", "!!int west"), &["F:6:19: not valid YAML: the value does not match its tag"]),
        (group("spec:", "spec:\n  <<: 5"), &["F:6:7: not valid YAML: << takes a map or a list of maps"]),
    ]
    .into_iter()
    .map(|(text, expected)| (text.into_bytes(), expected))
    .chain([
        ([GROUP.as_bytes(), b"# caf\xe9\n"].concat(), &["F:7:6: this is not UTF-8 text; save it as UTF-8"][..]),
        (
            "\u{feff}a".encode_utf16().flat_map(u16::to_le_bytes).collect(),
            &["F:1:1: this is not UTF-8 text; it is UTF-16: save it as UTF-8"],
        ),
    ])
    .collect();
    let mut wrong = String::new();
    for (text, expected) in cases {
        let (code, told) = plan(&text);
        for expected in expected {
            if !told.lines().any(|line| line.starts_with(&format!("error: {expected}"))) {
                writeln!(wrong, "expected {expected}\ngot      {told}").unwrap();
            }
        }
        assert_eq!(code, Some(i32::from(!expected.is_empty())), "{told}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn lists_json_streams_and_what_is_no_resource_are_read_as_kubectl_does() {
    let json = |name: &str| {
        let spec = "\"spec\": {\"location\": \"west\\u0075s\"}";
        format!(
            "{{\"apiVersion\": \"resources.azure.com/v1api20200601\", \"kind\": \"ResourceGroup\",\n\t\"metadata\": {{\"name\": \"{name}\"}}, {spec}}}"
        )
    };
    for (text, requests, note) in [
        (json("a") + "\n" + &json("b"), 2, ""),
        (format!("apiVersion: v1\nkind: List\nitems:\n- {}", GROUP.replace('\n', "\n  ")), 1, ""),
        (
            format!(
                "apiVersion: resources.azure.com/v1api20200601\nkind: ResourceGroupList\nitems:\n- {}",
                GROUP.replace('\n', "\n  ")
            ),
            1,
            "",
        ),
        (format!("apiVersion: v1\nkind: List\nitems: null\n---\n{GROUP}"), 1, ""),
        (
            format!("apiVersion: example.com/v1\nkind: AllowList\nspec: {{}}\n---\n{GROUP}"),
            1,
            "skipped AllowList (example.com/v1)",
        ),
        (
            format!("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n---\n{GROUP}"),
            1,
            "skipped CustomResourceDefinition",
        ),
        (group("westus", "\"{{ .Values.place }}\""), 1, "note: -:6:1: {{ .Values.place }} is not replaced"),
        (group("spec:", "spec:\n  <<: {tags: {a: b}}"), 1, ""),
        (group("westus", "!!binary d2VzdHVz"), 1, ""),
    ] {
        let ran = flotilla(&["plan", "-o", "json", "--subscription", "s", "-f", "-"], &text);
        let found: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, found.len()), (Some(0), requests), "{text}{}", ran.err);
        assert!(ran.err.contains(note), "{}", ran.err);
        assert!(found.iter().all(|r| r["body"]["location"] != "west"), "{}", ran.out);
    }
}

#[test]
fn what_cannot_be_read_in_a_folder_leaves_the_rest() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.yaml"), GROUP).unwrap();
    std::fs::write(at("notes.txt"), "a: [").unwrap();
    std::fs::create_dir(at("d.yaml")).unwrap();
    symlink(".", at("loop")).unwrap();
    symlink("b.yaml", at("b.yaml")).unwrap();
    symlink("nowhere", at("c.yaml")).unwrap();
    // Neither a file nor a folder, as a pipe is.
    let _socket = std::os::unix::net::UnixListener::bind(at("e.yaml")).unwrap();
    std::fs::write(at("f.yaml"), "").unwrap();
    std::fs::set_permissions(at("f.yaml"), std::fs::Permissions::from_mode(0o0)).unwrap();
    let root = std::fs::read(at("f.yaml")).is_ok();
    let ran = flotilla(&["plan", "-R", "-o", "json", "--subscription", "s", "-f", folder.path().to_str().unwrap()], "");
    let place = |name: &str| format!("error: {}: ", at(name).display());
    let mut told = vec![
        place("b.yaml") + "failed to read: Too many levels",
        place("c.yaml") + "failed to read: No such",
        place("e.yaml") + "neither a file nor a folder",
    ];
    if !root {
        told.push(place("f.yaml") + "failed to read: Permission denied");
    }
    assert_eq!(ran.err.lines().count(), told.len(), "{}", ran.err);
    for (line, expected) in ran.err.lines().zip(told) {
        assert!(line.starts_with(&expected), "{line}");
    }
    assert_eq!((ran.code, ran.out.matches("\"method\"").count()), (Some(1), 1));
}

#[test]
fn flags_that_would_make_no_url_are_refused() {
    for flags in
        [["--subscription", "a/b"], ["--namespace", "A"], ["--endpoint", "management.azure.com"], ["--var", "A"]]
    {
        let ran = flotilla(&[&["plan", "-f", "-"], &flags[..]].concat(), GROUP);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{flags:?}");
    }
}

/// Seconds on a busy machine and unoptimised; what is quadratic takes minutes.
#[test]
fn large_input_takes_time_by_its_size() {
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join("---\n");
    let account = |i: usize| {
        format!(
            "apiVersion: storage.azure.com/v1api20230101\nkind: StorageAccount\nmetadata: {{name: s{i}}}\nspec: {{location: westus, kind: StorageV2, owner: {{name: h{i}}}, sku: {{name: Standard_LRS}}}}\n"
        )
    };
    let word = "x".repeat(1 << 20);
    let start = Instant::now();
    for text in [
        "# ${\n".repeat(1 << 20),
        "# {{\n".repeat(1 << 20),
        group("resources", &word),
        group("ResourceGroup", &word),
        group("v1api20200601", &word),
        group("name: rg", &format!("name: {word}")),
        group("location", &format!("? {word}\n  : x\n  location")),
        many(1_000, &|i| group("rg", &format!("g{i}"))) + "---\n" + &many(500, &account),
        many(2_000, &|_| "a: [\n".to_owned()),
    ] {
        let (_, told) = plan(text.as_bytes());
        assert!(told.lines().all(|line| line.len() < 20_000), "a line of {} bytes", told.len());
    }
    assert!(start.elapsed() < Duration::from_mins(1), "took {:?}", start.elapsed());
}

/// This would become 64 GiB.
#[test]
fn variables_do_not_make_a_text_larger_than_a_file_may_be() {
    let text = "${A}".repeat(1 << 20);
    let ran = flotilla(&["plan", "-f", "-", "--var", &format!("A={}", "y".repeat(1 << 16))], &text);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), "error: -: larger than 64 MiB; split it into several files\n"));
}
