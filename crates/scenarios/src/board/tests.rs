//! The board, told what happens and when.

use serde_json::json;

use super::*;
use crate::story::Step;

fn spec(name: &str, prefix: &str) -> GroupSpec {
    GroupSpec::new(name, prefix, 2, Kind::Tpcc)
}

fn board() -> Board {
    let step = |at_s, changes| Step { at_s, text: "", changes };
    let steps = vec![
        step(0.0, vec![Change::Group(spec("a", "a"))]),
        step(10.0, vec![Change::Group(spec("b", "b")), Change::Server("policy", "max_only")]),
        step(20.0, vec![Change::Group(GroupSpec { clients: 5, ..spec("a", "a") }), Change::Leave("b")]),
    ];
    let story = |id| Story { id, title: id, text: id, steps: steps.clone(), last_s: 10.0 };
    Board::new(vec![story("one"), story("two")])
}

/// Looks twice a second from one time to another; the groups are loaded as soon as they are there.
fn play(board: &mut Board, from_s: f64, to_s: f64) {
    let mut now_s = from_s;
    while now_s <= to_s {
        board.tick(now_s);
        for group in &mut board.groups {
            (group.state, group.has_begun) = (GroupState::Running, true);
        }
        now_s += 0.5;
    }
}

fn names(board: &Board) -> Vec<&str> {
    board.groups.iter().map(|group| group.spec.name.as_str()).collect()
}

fn at(board: &Board) -> (f64, usize) {
    let running = &board.json()["running"];
    (running["at_s"].as_f64().expect("a number"), running["step"].as_u64().expect("a number") as usize)
}

#[test]
fn a_story_does_its_steps_in_their_time_and_clears_up_at_its_end() {
    let mut board = board();
    board.start("one", 7).expect("there is one");
    play(&mut board, 100.0, 109.5);
    assert_eq!((names(&board), board.sql.len()), (vec!["a"], 0));
    play(&mut board, 110.0, 110.0);
    assert_eq!(names(&board), ["a", "b"]);
    assert_eq!(board.sql.pop_front().as_deref(), Some("ALTER SERVER SET (policy = max_only)"));
    play(&mut board, 110.5, 120.0);
    assert_eq!((names(&board), board.groups[0].spec.clients), (vec!["a"], 5));
    assert_eq!(board.json()["running"]["began_ms"], 7);
    board.stop();
    assert!(board.groups.is_empty() && board.json()["running"].is_null());
    assert_eq!(board.sql.pop_front().as_deref(), Some("ALTER SERVER RESET (policy)"));
    board.stop();
    assert!(board.sql.is_empty(), "it has ended already");
}

#[test]
fn while_a_group_loads_the_shapes_of_the_story_wait_with_its_steps() {
    let mut board = board();
    board.add(spec("mine", "m")).expect("a group");
    board.start("one", 0).expect("there is one");
    play(&mut board, 0.0, 9.5);
    let ages = |board: &Board| -> Vec<f64> { board.groups.iter().map(|group| group.age_s).collect() };
    let before = ages(&board);
    // Another group of the story comes, and is not loaded yet.
    board.tick(10.0);
    assert_eq!(names(&board), ["mine", "a", "b"]);
    let (at_s, after) = (at(&board).0, ages(&board));
    board.tick(10.5);
    assert_eq!(at(&board).0, at_s);
    assert_eq!(ages(&board), [after[0] + 0.5, after[1], 0.0], "what one added oneself goes on: {before:?}");
}

#[test]
fn speed_and_pause_are_the_storys_and_its_shapes() {
    let mut board = board();
    assert!(matches!(board.steer(Some(2.0), None), Err(Problem::InUse(_))), "none runs");
    board.start("one", 0).expect("there is one");
    play(&mut board, 0.0, 2.0);
    let (before_s, age_s) = (at(&board).0, board.groups[0].age_s);
    board.steer(Some(4.0), None).expect("a speed");
    play(&mut board, 2.5, 4.0);
    assert_eq!((at(&board).0 - before_s, board.groups[0].age_s - age_s), (8.0, 8.0));
    board.steer(None, Some(true)).expect("a pause");
    let (before_s, age_s) = (at(&board).0, board.groups[0].age_s);
    play(&mut board, 4.5, 60.0);
    assert_eq!((at(&board).0, board.groups[0].age_s), (before_s, age_s));
    for speed in [0.0, -1.0, 101.0, f64::NAN] {
        assert!(matches!(board.steer(Some(speed), None), Err(Problem::Invalid(_))), "{speed}");
    }
}

#[test]
fn a_story_waits_for_its_groups_to_be_loaded() {
    let mut board = board();
    board.start("one", 0).expect("there is one");
    for second in 0..60 {
        board.tick(f64::from(second));
    }
    assert_eq!((at(&board), names(&board)), ((0.0, 0), vec!["a"]));
    board.groups[0].state = GroupState::Failed;
    board.tick(60.0);
    board.tick(61.0);
    assert_eq!(at(&board).0, 2.0, "one that fails is not waited for");
}

#[test]
fn a_process_that_was_held_up_does_not_tell_all_at_once() {
    let mut board = board();
    board.start("one", 0).expect("there is one");
    play(&mut board, 0.0, 1.0);
    let before_s = at(&board).0;
    play(&mut board, 1_000.0, 1_000.0);
    assert_eq!(at(&board).0 - before_s, TICK_MAX_S);
}

#[test]
fn another_story_takes_the_ones_place_and_leaves_what_is_not_its_own() {
    let mut board = board();
    board.add(spec("mine", "mine")).expect("it is free");
    board.start("one", 0).expect("there is one");
    play(&mut board, 0.0, 15.0);
    assert_eq!(names(&board), ["mine", "a", "b"]);
    board.start("two", 0).expect("there is one");
    assert_eq!(names(&board), ["mine"]);
    assert_eq!(board.sql.back().map(String::as_str), Some("ALTER SERVER RESET (policy)"));
    assert!(matches!(board.start("three", 0), Err(Problem::Missing(_))));
    assert_eq!(board.json()["running"]["story"], "two", "a mistake stops nothing");
}

#[test]
fn names_and_tenants_are_of_one_group() {
    let mut board = board();
    let id = board.add(spec("mine", "a")).expect("it is free").to_string();
    assert!(matches!(board.add(spec("mine", "c")), Err(Problem::InUse(_))), "the name");
    assert!(matches!(board.add(spec("other", "a")), Err(Problem::InUse(_))), "the tenants");
    assert!(matches!(board.start("one", 0), Err(Problem::InUse(_))), "the story needs them");
    let fields = |json: Value| json.as_object().expect("fields").clone();
    board.change(&id, fields(json!({ "tenant_prefix": "c" }))).expect("they are free");
    board.start("one", 0).expect("they are free again");
    play(&mut board, 0.0, 1.0);
    // b comes later, and has to find its tenants free.
    for taken in ["a", "b"] {
        let change = board.change(&id, fields(json!({ "tenant_prefix": taken })));
        assert!(matches!(change, Err(Problem::InUse(_))), "{taken}");
    }
    let of_story = board.groups.iter().find(|group| group.spec.name == "a").expect("a").id.to_string();
    board.change(&of_story, fields(json!({ "clients": 3 }))).expect("a story's group can be changed");
    assert!(matches!(board.change("99", Map::new()), Err(Problem::Missing(_))));
    board.remove(&id).expect("it is there");
    assert!(matches!(board.remove(&id), Err(Problem::Missing(_))));
}

#[test]
fn a_file_takes_the_place_of_all_or_nothing() {
    let mut board = board();
    board.start("one", 0).expect("there is one");
    play(&mut board, 0.0, 1.0);
    let clash = board.replace(vec![spec("x", "x"), spec("y", "x")]).expect_err("one prefix for two");
    assert!(matches!(&clash, Problem::InUse(text) if text.contains("\"y\"")), "{clash}");
    assert_eq!(names(&board), ["a"]);
    board.replace(vec![spec("x", "x"), spec("y", "y")]).expect("groups");
    assert_eq!(names(&board), ["x", "y"]);
    assert!(board.json()["running"].is_null());
    assert_eq!(board.tenants().keys().collect::<Vec<_>>(), ["x1", "x2", "y1", "y2"]);
}

#[test]
fn a_group_that_becomes_another_begins_anew() {
    let mut board = board();
    let id = board.add(spec("mine", "mine")).expect("it is free").to_string();
    play(&mut board, 0.0, 5.0);
    let mut change = |json: Value| {
        board.change(&id, json.as_object().expect("fields").clone()).expect("a change");
        let group = &mut board.groups[0];
        let outcome = (group.has_begun, group.age_s > 0.0);
        (group.has_begun, group.age_s) = (true, 5.0);
        outcome
    };
    assert_eq!(change(json!({ "clients": 3, "rate": 5, "tenants": 9 })), (true, true));
    let shape = json!({ "kind": "ramp", "period_s": 10, "low": 0, "high": 1 });
    assert_eq!(change(json!({ "shape": shape })), (true, false), "the shape begins anew");
    assert_eq!(change(json!({ "workload": "cpuio" })), (false, false));
    assert_eq!(change(json!({ "tenant_prefix": "other" })), (false, false));
}

/// The names that a schema has, in their order; those of its parts, if it is made of parts.
fn described(schema: &Value, schemas: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<String> =
        schema["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let part = match part["$ref"].as_str() {
            Some(path) => &schemas[path.rsplit('/').next().expect("a name")],
            None => part,
        };
        names.extend(described(part, schemas));
    }
    names.sort();
    names
}

#[test]
fn what_the_page_is_told_is_what_is_described() {
    let mut board = board();
    board.start("one", 7).expect("there is one");
    play(&mut board, 0.0, 1.0);
    let (json, schemas) = (board.json(), crate::routes::schemas());
    let same = |value: &Value, schema: &Value| {
        let mut names: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        names.sort();
        assert_eq!(names, described(schema, &schemas), "{value}");
    };
    let demo = &schemas["Demo"]["properties"];
    same(&json, &schemas["Demo"]);
    same(&json["running"], &demo["running"]);
    same(&json["stories"][0], &demo["stories"]["items"]);
    same(&json["groups"][0], &demo["groups"]["items"]);
    same(&json["groups"][0]["shape"], &schemas["ClientGroup"]["properties"]["shape"]);
    same(&json["running"]["steps"][0], &demo["running"]["properties"]["steps"]["items"]);
    same(&json["workloads"][0], &demo["workloads"]["items"]);
    // The last one's last option is a choice, which says all that an option can say.
    same(&json["workloads"][4]["options"][1], &demo["workloads"]["items"]["properties"]["options"]["items"]);
    assert_eq!(json["running"]["length_s"], 30.0);
}
