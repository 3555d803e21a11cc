//! Facts about settings.

use base::Oid;

use super::*;

fn role(oid: u32, name: &str) -> ChosenRole {
    ChosenRole { oid: Oid(oid), name: name.to_owned(), superuser: name == "chief", administrator: false }
}

fn settings() -> Settings {
    Settings::new(role(1, "amy"))
}

fn shown(settings: &Settings, name: &str) -> String {
    settings.show(name, None).unwrap().1
}

#[test]
fn a_local_value_ends_with_its_transaction_and_a_session_value_stays() {
    let mut settings = settings();
    settings.set("statement_timeout", Some("5s"), Lasting::Session).unwrap();
    settings.set("statement_timeout", Some("90000"), Lasting::Transaction).unwrap();
    assert_eq!(shown(&settings, "statement_timeout"), "90s");
    settings.commit();
    assert_eq!(shown(&settings, "statement_timeout"), "5s");
    assert_eq!(settings.duration(Id::statement_timeout), Some(Nanos::from_secs(5)));
}

#[test]
fn a_statement_timeout_is_shown_as_it_is_in_force() {
    let mut settings = settings();
    let max = Some(Nanos::from_secs(30));
    let shown = |settings: &Settings, max| settings.show("statement_timeout", max).unwrap().1;
    for (own, with, without) in
        [("0", "30s", "0"), ("29999", "29999ms", "29999ms"), ("30s", "30s", "30s"), ("1h", "30s", "1h")]
    {
        settings.set("statement_timeout", Some(own), Lasting::Session).unwrap();
        assert_eq!((shown(&settings, max).as_str(), shown(&settings, None).as_str()), (with, without));
    }
    assert_eq!(shown(&settings, Some(Nanos(1_500_000))), "2ms", "whole milliseconds, never too little");
    assert_eq!(settings.show("lock_timeout", max).unwrap().1, "0");
    assert!(settings.all(max).iter().any(|(name, value, _)| name == "statement_timeout" && value == "30s"));
}

#[test]
fn a_rollback_takes_every_change_back() {
    let mut settings = settings();
    settings.set("search_path", Some("a"), Lasting::Session).unwrap();
    settings.set("my.own", Some("1"), Lasting::Session).unwrap();
    settings.roll_back_to(0);
    assert_eq!(shown(&settings, "search_path"), "\"$user\", public");
    assert!(settings.show("my.own", None).is_err());
}

#[test]
fn changes_that_are_gone_leave_no_room_behind() {
    let mut settings = settings();
    for n in 0..1000 {
        settings.set("my.own", Some(if n % 2 == 0 { "1" } else { "2" }), Lasting::Session).unwrap();
    }
    settings.roll_back_to(1);
    settings.trim();
    assert!(settings.changes.capacity() < 100, "{}", settings.changes.capacity());
}

#[test]
fn a_changed_reported_setting_is_reported_once() {
    let mut settings = settings();
    settings.set("timezone", Some("Europe/Berlin"), Lasting::Session).unwrap();
    settings.set("work_mem", Some("1GB"), Lasting::Session).unwrap();
    assert_eq!(settings.take_reports(), [("TimeZone", "Europe/Berlin".to_owned())]);
    assert!(settings.take_reports().is_empty());
}

#[test]
fn settings_without_effect_are_on_the_page_of_what_is_taken() {
    let page = include_str!("../../../../../docs/sql-compat.md");
    let all = DEFINITIONS.iter().chain(TAKEN);
    let without: Vec<_> =
        all.filter(|d| d.description.starts_with("Has no effect")).map(|d| d.name).collect();
    let missing: Vec<_> = without.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/sql-compat.md does not name {missing:?}");
    assert!(without.len() > 8, "{without:?}");
}

#[test]
fn a_session_starts_with_no_value_that_it_could_not_set() {
    let state = |name: &str| Settings::check_initial(name, "on").unwrap_err().state();
    assert_eq!(state("is_superuser"), SqlState::CANT_CHANGE_RUNTIME_PARAM);
    for name in ["role", "session_authorization", "transaction_read_only"] {
        assert_eq!(state(name), SqlState::FEATURE_NOT_SUPPORTED, "{name}");
        assert_eq!(settings().set_initial(name, "on").unwrap_err().state(), state(name));
    }
    assert_eq!(state("nonsense"), SqlState::UNDEFINED_OBJECT);
}

#[test]
fn who_the_session_is_decides_whether_it_is_a_superuser() {
    let mut settings = settings();
    settings.choose(Id::role, Some(role(2, "chief")), Lasting::Transaction);
    assert_eq!((settings.role().oid, settings.session_role().oid), (Oid(2), Oid(1)));
    assert_eq!((settings.get(Id::role), settings.get(Id::is_superuser)), ("chief", "on"));
    settings.commit();
    assert_eq!((settings.role().oid, settings.get(Id::role)), (Oid(1), "none"));
    assert_eq!(settings.take_reports(), [("is_superuser", "off".to_owned())]);
    settings.choose(Id::session_authorization, Some(role(2, "chief")), Lasting::Session);
    assert_eq!((settings.role().oid, settings.login_role().oid), (Oid(2), Oid(1)));
}

#[test]
fn bad_values_and_unknown_names_are_refused() {
    let mut settings = settings();
    let mut state =
        |name: &str, value: &str| settings.set(name, Some(value), Lasting::Session).unwrap_err().state();
    assert_eq!(state("nonsense", "1"), SqlState::UNDEFINED_OBJECT);
    assert_eq!(state("timezone", "Mars/Olympus"), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(state("server_version", "16"), SqlState::CANT_CHANGE_RUNTIME_PARAM);
    assert_eq!(state("statement_timeout", "soon"), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(state("client_encoding", "LATIN1"), SqlState::FEATURE_NOT_SUPPORTED);
}

#[test]
fn memory_has_units() {
    let mut settings = settings();
    for (given, kept) in [
        ("65536", "64MB"),
        ("100kB", "100kB"),
        ("1.5MB", "1536kB"),
        ("2GB", "2GB"),
        ("1048576 kB", "1GB"),
        ("131072B", "128kB"),
    ] {
        settings.set("work_mem", Some(given), Lasting::Session).unwrap();
        assert_eq!(shown(&settings, "work_mem"), kept, "{given}");
    }
    for bad in ["", "much", "4mb", "63", "64 parsecs", "3TB"] {
        let error = settings.set("work_mem", Some(bad), Lasting::Session).unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_PARAMETER_VALUE, "{bad}");
    }
    let error = settings.set("maintenance_work_mem", Some("1"), Lasting::Session).unwrap_err();
    let range = "1 kB is outside the valid range for parameter \"maintenance_work_mem\" (1024 .. 2147483647)";
    assert_eq!(error.message(), range);
}

#[test]
fn what_is_told_a_planner_is_taken_and_kept_once_it_is_set() {
    let mut settings = settings();
    for taken in TAKEN {
        assert_eq!(check(taken, taken.default).as_deref(), Ok(taken.default), "{}", taken.name);
        assert_eq!(shown(&settings, &taken.name.to_uppercase()), taken.default);
    }
    assert!(settings.custom.is_empty());
    for (name, given, kept) in [
        ("enable_seqscan", "FALSE", "off"),
        ("Random_Page_Cost", "1.10", "1.1"),
        ("effective_cache_size", "1000", "8000kB"),
        ("effective_cache_size", "6GB", "6GB"),
        ("default_statistics_target", "500", "500"),
        ("plan_cache_mode", "Force_Custom_Plan", "force_custom_plan"),
    ] {
        settings.set(name, Some(given), Lasting::Session).unwrap();
        assert_eq!(shown(&settings, name), kept, "{name}");
    }
    for (name, bad, message) in [
        ("enable_sort", "maybe", "parameter \"enable_sort\" requires a Boolean value"),
        ("geqo_effort", "11", "11 is outside the valid range for parameter \"geqo_effort\" (1 .. 10)"),
        (
            "seq_page_cost",
            "-1",
            "-1 is outside the valid range for parameter \"seq_page_cost\" (0 .. 1.79769e+308)",
        ),
        ("seq_page_cost", "NaN", "invalid value for parameter \"seq_page_cost\": \"NaN\""),
        (
            "effective_cache_size",
            "0",
            "0 8kB is outside the valid range for parameter \"effective_cache_size\" (1 .. 2147483647)",
        ),
    ] {
        for error in [
            settings.set(name, Some(bad), Lasting::Session).unwrap_err(),
            Settings::check_initial(name, bad).unwrap_err(),
        ] {
            assert_eq!((error.state(), error.message()), (SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    let all = settings.all(None);
    let listed: Vec<_> =
        all.iter().filter(|(name, ..)| name == "random_page_cost").map(|(_, value, _)| value).collect();
    assert_eq!(listed, ["1.1"], "once, as it is set");
    settings.reset_all().unwrap();
    assert!(settings.custom.is_empty());
    assert_eq!(shown(&settings, "random_page_cost"), "4");
    let facts = setting_facts("effective_cache_size").expect("it is known");
    assert_eq!((facts.vartype, facts.unit, &*facts.default), ("integer", Some("8kB"), "524288"));
    assert_eq!(setting_facts("random_page_cost").expect("it is known").vartype, "real");
}

#[test]
fn what_never_changes_is_shown_and_not_set() {
    let mut settings = settings();
    assert_eq!(shown(&settings, "WAL_level"), "minimal");
    assert_eq!(shown(&settings, "block_size"), base::limits::PAGE_SIZE.to_string());
    settings.connections_max = 7;
    assert_eq!(shown(&settings, "max_connections"), "7");
    let error = settings.set("wal_level", Some("logical"), Lasting::Session).unwrap_err();
    assert_eq!(error.state(), SqlState::CANT_CHANGE_RUNTIME_PARAM);
    assert_eq!(error.message(), "parameter \"wal_level\" cannot be changed");
    let start = Settings::check_initial("fsync", "off").unwrap_err();
    assert_eq!(start.state(), SqlState::CANT_CHANGE_RUNTIME_PARAM);
    let all = settings.all(None);
    assert!(all.is_sorted() && all.iter().any(|(name, value, _)| name == "data_checksums" && value == "on"));
}

#[test]
fn a_custom_setting_has_two_or_more_simple_identifiers() {
    let mut settings = settings();
    for name in ["app.user_id", "_a.b$1", "a.b.c", "Größe.Ü1"] {
        settings.set(name, Some("x"), Lasting::Session).unwrap();
        assert_eq!(settings.show(name, None).unwrap(), (name.to_lowercase(), "x".to_owned()));
    }
    for name in [".", "a.", ".a", "a..b", "1.a", "a.1", "a.$b", "a.b c", "a.b\n", "a.b-c", "a.\"b\"", "a=.b"]
    {
        for error in [
            settings.set(name, Some("x"), Lasting::Session).unwrap_err(),
            Settings::check_initial(name, "x").unwrap_err(),
        ] {
            assert_eq!(error.state(), SqlState::INVALID_NAME, "{name}");
            assert_eq!(error.message(), format!("invalid configuration parameter name \"{name}\""));
            assert!(error.detail().is_some_and(|detail| detail.starts_with("Custom parameter names must")));
        }
    }
    settings.roll_back_to(0);
    assert!(settings.custom.is_empty());
}

#[test]
fn of_many_changes_of_a_custom_setting_the_last_for_the_session_stays() {
    let mut settings = settings();
    for (value, lasting) in [
        ("1", Lasting::Transaction),
        ("2", Lasting::Session),
        ("3", Lasting::Transaction),
        ("4", Lasting::Transaction),
    ] {
        settings.set("a.b", Some(value), lasting).unwrap();
        settings.set("a.c", Some(value), Lasting::Transaction).unwrap();
    }
    settings.commit();
    assert_eq!(shown(&settings, "a.b"), "2");
    assert!(settings.show("a.c", None).is_err());
}

#[test]
fn what_a_session_keeps_of_its_settings_is_bounded() {
    let mut settings = settings();
    let long = "x".repeat(1 << 20);
    // The values before changes count until their transaction ends; those of settings until they are reset.
    for name in ["application_name", "a.b"] {
        let last = (0..10).find_map(|_| settings.set(name, Some(&long), Lasting::Session).err());
        assert_eq!(last.expect("it is too much").state(), SqlState::PROGRAM_LIMIT_EXCEEDED, "{name}");
        settings.set(name, None, Lasting::Session).unwrap();
        settings.commit();
        assert_eq!(settings.kept_size, 0);
        settings.set(name, Some(&long), Lasting::Session).unwrap();
        settings.roll_back_to(0);
        assert_eq!(settings.kept_size, 0);
    }
    let mut set = 0;
    while settings.set(&format!("a.s{set}"), Some("x"), Lasting::Transaction).is_ok() {
        set += 1;
    }
    assert!(set > 10_000, "{set}");
    settings.commit();
    assert_eq!((settings.kept_size, settings.custom.len()), (0, 0));
    let many = (0..1_000_000).position(|_| settings.reset_all().is_err());
    assert!(many.is_some_and(|many| many > 1_000), "{many:?}");
    settings.roll_back_to(0);
    assert_eq!(settings.kept_size, 0);
}

#[test]
fn an_encoding_is_known_by_its_letters_and_digits() {
    let mut settings = settings();
    for name in ["utf8", "UTF-8", "'utf-8'", "Unicode"] {
        settings.set("client_encoding", Some(name), Lasting::Session).unwrap();
        assert_eq!(shown(&settings, "client_encoding"), "UTF8", "{name}");
    }
}

#[test]
fn the_search_path_folds_names_and_knows_the_user() {
    let mut settings = settings();
    assert_eq!(settings.search_path(), ["amy", "public"]);
    settings.set("search_path", Some("A, \"B c\" ,public"), Lasting::Session).unwrap();
    assert_eq!(settings.search_path(), ["a", "B c", "public"]);
}

#[test]
fn a_search_path_is_no_longer_than_is_looked_up_at_once() {
    let mut settings = settings();
    let names = |count: usize| vec!["a"; count].join(", ");
    settings.set("search_path", Some(&names(256)), Lasting::Session).unwrap();
    for long in [names(257), "x".repeat(40_000)] {
        for refused in [
            settings.set("search_path", Some(&long), Lasting::Session),
            settings.set_initial("search_path", &long),
            Settings::check_initial("search_path", &long),
        ] {
            assert_eq!(refused.unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        }
    }
    assert_eq!(settings.search_path().len(), 256);
}
