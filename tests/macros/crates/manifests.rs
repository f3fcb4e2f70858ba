//! Where the generated code finds the library.

use super::{Ran, SERDE, TinyCrate, dependency, program};

fn with_queuey(name: &str) -> String {
    dependency(name, "queuey", "") + SERDE
}

fn checked(name: &str, edition: u16, dependencies: &str, main: &str) -> Ran {
    let tiny = TinyCrate::new(name).package(name, edition, dependencies).file("src/main.rs", main);
    tiny.cargo(&["check", "--quiet"])
}

#[test]
fn a_renamed_dependency_is_found() {
    // M04 (a)
    let dependencies = format!("[dependencies]\n{}", with_queuey("jobs-lib"));
    checked("renamed", 2024, &dependencies, &program("jobs_lib", "jobs_lib", "")).clean();
}

#[test]
fn a_dependency_renamed_in_the_workspace_table_is_found() {
    // M04 (b)
    let root = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"app\"]\n\n[workspace.dependencies]\n{}",
        with_queuey("jobs")
    );
    let app = "[package]\nname = \"inherits\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\njobs.workspace = true\nserde = { workspace = true }\n";
    let tiny = TinyCrate::new("inherits")
        .file("Cargo.toml", &root)
        .file("app/Cargo.toml", app)
        .file("app/src/main.rs", &program("jobs", "jobs", ""));
    tiny.cargo(&["check", "--quiet"]).clean();
}

#[test]
fn a_dependency_of_one_target_is_found() {
    // M04 (c)
    let dependencies = format!("[target.'cfg(unix)'.dependencies]\n{}", with_queuey("queuey"));
    checked("of-a-target", 2024, &dependencies, &program("queuey", "queuey", "")).clean();
}

#[test]
fn a_dev_dependency_is_found_from_tests_and_examples() {
    // M04 (d)
    let main = program("mq", "mq", "");
    let tiny = TinyCrate::new("for-tests")
        .package("for-tests", 2024, &format!("[dev-dependencies]\n{}", with_queuey("mq")))
        .file("src/lib.rs", "")
        .file("examples/one.rs", &main)
        .file("tests/one.rs", &main.replace("fn main()", "#[test]\nfn works()"));
    tiny.cargo(&["check", "--quiet", "--tests", "--examples"]).clean();
}

#[test]
fn the_key_names_a_library_that_no_manifest_does() {
    // M04 (e)
    let facade = "[package]\nname = \"facade\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n";
    let tiny = |name: &str, main: &str| {
        let dependencies = format!("[dependencies]\nfacade = {{ path = \"facade\" }}\n{SERDE}");
        TinyCrate::new(name)
            .package(name, 2024, &dependencies)
            .file("facade/Cargo.toml", &format!("{facade}{}", dependency("queuey", "queuey", "")))
            .file("facade/src/lib.rs", "pub use queuey;")
            .file("src/main.rs", main)
    };
    let named = program("facade::queuey", "facade::queuey", "crate = \"facade::queuey\"");
    tiny("by-key", &named).cargo(&["check", "--quiet"]).clean();

    let one = "#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, facade::queuey::Queues)]\nenum Set {\n    Work,\n}\n\nfn main() {\n    let _ = Set::Work;\n}\n";
    let errors = tiny("not-found", one).cargo(&["check", "--quiet"]).errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("`#[queues(crate = \"path::to::queuey\")]`"), "{errors:?}");
}

#[test]
fn the_runtime_alone_is_enough() {
    let dependencies = format!(
        "[dependencies]\n{}{}{SERDE}",
        dependency("core-of-it", "queuey-core", ""),
        dependency("queuey-macros", "queuey-macros", "")
    );
    checked("runtime-alone", 2024, &dependencies, &program("core_of_it", "queuey_macros", "")).clean();
}

#[test]
fn every_edition_with_async_functions_will_do() {
    // M18
    for edition in [2018, 2021, 2024] {
        let dependencies = format!("[dependencies]\n{}", with_queuey("queuey"));
        checked(&format!("edition-{edition}"), edition, &dependencies, &program("queuey", "queuey", ""))
            .clean();
    }
}
