//! What the macros accept: one program in `ui/<macro>/pass/` for each kind, which is built and run.

#[test]
fn what_is_right_compiles_in_any_company_and_means_what_it_says() {
    // M01, M02, M03, M06, M08, M09, M11, M12, M16
    trybuild::TestCases::new().pass("ui/*/pass/*.rs");
}
