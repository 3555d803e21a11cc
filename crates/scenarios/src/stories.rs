//! The stories, in proportion to the server: a promise of `0.1` of it is a tenth of its workers.
//!
//! The server's own work has a fifth of each worker reserved, so that what all others together can be promised without overbooking is 0.8 of
//! the workers. A tenant works on one worker: it cannot use more than one core, however many there are.

use serde_json::json;

use crate::group::GroupSpec;
use crate::load::{Kind, Options};
use crate::shape::{self, Shape};
use crate::story::{Change, Step, Story};

/// All of them, as the page lists them.
pub(crate) fn all(workers: usize) -> Vec<Story> {
    assert!(workers > 0, "a server has a worker");
    let workers = workers as f64;
    vec![
        shops(),
        growing(workers),
        noisy(workers),
        overbooking(workers),
        analytics(workers),
        many(workers),
        whole(workers),
    ]
}

fn step(at_s: f64, text: &'static str, changes: Vec<Change>) -> Step {
    Step { at_s, text, changes }
}

/// Cores for each of so many tenants that share this part of the server: half a core at most, which a worker has room for.
fn share(workers: f64, part: f64, tenants: u32) -> f64 {
    (workers * part / f64::from(tenants) * 1_000.0).floor().min(500.0) / 1_000.0
}

fn options(json: serde_json::Value) -> Options {
    serde_json::from_value(json).expect("options are an object")
}

/// Order entry at a modest rate: so many transactions a second of all its tenants for each worker.
fn orders(name: &str, prefix: &str, tenants: u32, per_worker: f64, workers: f64, cpu: f64) -> GroupSpec {
    GroupSpec {
        rate: Some((per_worker * workers / f64::from(tenants) * 100.0).round() / 100.0),
        promises: options(json!({ "cpu": cpu })),
        ..GroupSpec::new(name, prefix, tenants, Kind::Tpcc)
    }
}

/// Queries that take processor time and nothing else, as many as are answered.
fn computing(name: &str, prefix: &str, clients: u32, promises: serde_json::Value) -> GroupSpec {
    GroupSpec {
        clients,
        options: options(json!({ "cpu": 1, "scan": 0, "lookup": 0 })),
        promises: options(promises),
        ..GroupSpec::new(name, prefix, 1, Kind::Cpuio)
    }
}

fn shops() -> Story {
    let shops = GroupSpec { clients: 2, ..GroupSpec::new("the shops", "shop", 4, Kind::Tpcc) };
    Story {
        id: "shops",
        title: "Four tenants take orders",
        text: "Four tenants with two clients each, which order as fast as they are served. Nothing is promised: they share the server evenly.",
        steps: vec![step(0.0, "Four shops, two clients each", vec![Change::Group(shops)])],
        last_s: 60.0,
    }
}

fn growing(workers: f64) -> Story {
    let grower = |clients| {
        let promises = options(json!({ "cpu": share(1.0, 0.2, 1) }));
        Change::Group(GroupSpec {
            clients,
            promises,
            ..GroupSpec::new("the one that grows", "grower", 1, Kind::Tpcc)
        })
    };
    let fifty = orders("the fifty", "shop", 50, 100.0, workers, share(workers, 0.5, 50));
    Story {
        id: "growing",
        title: "One grows, fifty do not notice",
        text: "Fifty shops take orders at their usual rate. Another one has four times as many clients every half minute, until it wants all there is. The fifty go on taking as many orders as before.",
        steps: vec![
            step(
                0.0,
                "Fifty shops, each with a promise of processor time and a steady stream of orders",
                vec![Change::Group(fifty)],
            ),
            step(
                20.0,
                "Another one opens, with one client that orders as fast as it is served",
                vec![grower(1)],
            ),
            step(50.0, "It has four clients", vec![grower(4)]),
            step(80.0, "Sixteen", vec![grower(16)]),
            step(
                110.0,
                "Sixty-four: it takes whatever its worker has to spare, and only that",
                vec![grower(64)],
            ),
            step(150.0, "It closes. The fifty go on as before", vec![Change::Leave("the one that grows")]),
        ],
        last_s: 30.0,
    }
}

fn noisy(workers: f64) -> Story {
    // For each worker two quiet tenants, which take about a quarter of it, and twelve noisy ones, which together may take four fifths.
    let pairs = (workers as u32).min(64);
    // A warehouse for each client, else they wait for each other's rows as much as for anything.
    let quiet = GroupSpec {
        clients: 8,
        options: options(json!({ "warehouses": 8 })),
        ..orders("the quiet ones", "quiet", 2 * pairs, 600.0, workers, share(workers, 0.6, 2 * pairs))
    };
    let noise = GroupSpec {
        tenants: 12 * pairs,
        ..computing("the noisy ones", "noisy", 2, json!({ "cpu": 0.01, "cpu_max": 0.066 }))
    };
    Story {
        id: "noisy",
        title: "A noisy neighbour under three policies",
        text: "Two tenants a worker take orders within their promises, and twelve beside them take all they can get. The policy is switched from reservations to best effort to limits only, and back: watch the orders of the quiet ones, and whose promises break.",
        steps: vec![
            step(
                0.0,
                "The quiet ones take orders, under reservations",
                vec![Change::Server("policy", "reservations"), Change::Group(quiet)],
            ),
            step(
                20.0,
                "The noise begins. Promises are kept: the quiet ones take as many orders as before",
                vec![Change::Group(noise)],
            ),
            step(
                60.0,
                "Best effort: all get the same, whatever was promised, and the many have the most",
                vec![Change::Server("policy", "best_effort")],
            ),
            step(
                100.0,
                "Limits only: each noisy one stops at a fifteenth of a core. Better, and still not what was promised",
                vec![Change::Server("policy", "max_only")],
            ),
            step(
                140.0,
                "Reservations again: the quiet ones recover at once",
                vec![Change::Server("policy", "reservations")],
            ),
        ],
        last_s: 40.0,
    }
}

fn overbooking(workers: f64) -> Story {
    // For each worker a tenant of each kind; together they are promised twice what a worker has to give.
    let tenants = (workers as u32).min(100);
    let of = |name, prefix, penalty| GroupSpec {
        tenants,
        ..computing(name, prefix, 4, json!({ "cpu": 0.5, "penalty": penalty }))
    };
    let gold = of("gold", "gold", 10);
    let asleep = |spec: GroupSpec| GroupSpec {
        shape: Shape { kind: shape::Kind::Step, period_s: 30.0, low: 0.0, high: 1.0 },
        ..spec
    };
    Story {
        id: "overbooking",
        title: "Overbooking, and who pays",
        text: "Gold, silver and bronze are promised half a core each: more than there is. While one sleeps nobody notices. When all are awake, all fall short in proportion; then those with the lowest penalty first.",
        steps: vec![
            step(
                0.0,
                "More is promised than there is. Bronze sleeps, and every promise holds, or nearly",
                vec![
                    Change::Server("overbooking", "spread"),
                    Change::Group(gold),
                    Change::Group(of("silver", "silver", 3)),
                    Change::Group(asleep(of("bronze", "bronze", 1))),
                ],
            ),
            step(30.0, "All are awake: each falls short in proportion to its promise", vec![]),
            step(
                70.0,
                "The least penalty: bronze pays, gold and silver get what they were promised while there is enough",
                vec![Change::Server("overbooking", "least_penalty")],
            ),
            step(110.0, "Half and half", vec![Change::Server("overbooking", "0.5")]),
            step(
                150.0,
                "In proportion again. The ledger has what is owed to whom",
                vec![Change::Server("overbooking", "spread")],
            ),
        ],
        last_s: 30.0,
    }
}

fn analytics(workers: f64) -> Story {
    let shops = orders("order entry", "shop", 8, 150.0, workers, share(workers, 0.5, 8));
    let reports = |clients| {
        let promises = options(json!({ "cpu": 0.1 }));
        Change::Group(GroupSpec { clients, promises, ..GroupSpec::new("reports", "report", 1, Kind::Tpch) })
    };
    Story {
        id: "analytics",
        title: "An analytical query beside TPC-C",
        text: "A tenant runs TPC-H's queries beside eight that take orders. The queries get what is to spare; as many orders are taken as before.",
        steps: vec![
            step(0.0, "Eight shops take orders", vec![Change::Group(shops)]),
            step(20.0, "A stream of TPC-H queries begins in another tenant", vec![reports(1)]),
            step(60.0, "Four streams", vec![reports(4)]),
            step(100.0, "The reports are done", vec![Change::Leave("reports")]),
        ],
        last_s: 20.0,
    }
}

fn many(workers: f64) -> Story {
    let small = |name, prefix, tenants: u32, shape| GroupSpec {
        options: options(json!({ "rows": 500, "cpu": 0, "rounds": 100, "scan_rows": 20 })),
        rate: Some((200.0 * workers / f64::from(tenants) * 100.0).round() / 100.0),
        promises: options(json!({ "cpu": share(workers, 0.35, tenants) })),
        shape,
        ..GroupSpec::new(name, prefix, tenants, Kind::Cpuio)
    };
    let wave = Shape { kind: shape::Kind::Wave, period_s: 60.0, low: 0.1, high: 1.5 };
    let burst = Shape { kind: shape::Kind::Burst, period_s: 30.0, low: 0.2, high: 6.0 };
    Story {
        id: "many",
        title: "Hundreds of small tenants",
        text: "Three hundred tenants, each with a client that asks for little. Half of them follow the day's wave, half come in bursts; one worker serves all of them that live there.",
        steps: vec![
            step(
                0.0,
                "A hundred and fifty tenants whose load comes and goes like the day's",
                vec![Change::Group(small("by day", "day", 150, wave))],
            ),
            step(
                30.0,
                "As many again, which come in bursts",
                vec![Change::Group(small("in bursts", "burst", 150, burst))],
            ),
            step(120.0, "The bursts end", vec![Change::Leave("in bursts")]),
        ],
        last_s: 30.0,
    }
}

fn whole(workers: f64) -> Story {
    let others =
        |rate| Change::Group(orders("the others", "small", 20, rate, workers, share(workers, 0.25, 20)));
    let big = GroupSpec {
        clients: 32,
        promises: options(json!({ "cpu": 0.2 })),
        ..GroupSpec::new("the big one", "big", 1, Kind::Tpcc)
    };
    let promised = GroupSpec { promises: options(json!({ "cpu": 0.5, "memory": "256MB" })), ..big.clone() };
    Story {
        id: "whole",
        title: "One big tenant has the whole server",
        text: "A big tenant among twenty small ones gets its promise and what is to spare. When the others leave, everything is its own; nothing is kept back for who is not there. When they return they have their promises at once. Its transactions are one worker's: of a server with several it uses that one.",
        steps: vec![
            step(
                0.0,
                "Twenty small tenants, and a big one that takes what it can get",
                vec![others(250.0), Change::Group(big)],
            ),
            step(40.0, "The small ones do half as much", vec![others(125.0)]),
            step(
                70.0,
                "They leave. The big one has the server for itself",
                vec![Change::Leave("the others")],
            ),
            step(
                110.0,
                "It is promised half a core and a quarter of a gigabyte: now that is a right",
                vec![Change::Group(promised)],
            ),
            step(130.0, "The small ones come back, within what was promised to them", vec![others(125.0)]),
        ],
        last_s: 30.0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::group::promises_sql;

    fn promised(spec: &GroupSpec) -> f64 {
        spec.promises.get("cpu").map_or(0.0, |cpu| cpu.as_f64().expect("a number"))
    }

    #[test]
    fn every_story_can_be_told_on_any_machine() {
        for workers in [1, 2, 3, 8, 64, 256] {
            let stories = all(workers);
            let ids: BTreeSet<_> = stories.iter().map(|story| story.id).collect();
            assert_eq!(ids.len(), stories.len(), "each has an id of its own");
            for story in &stories {
                assert_eq!(story.steps[0].at_s, 0.0, "{}", story.id);
                assert!(story.steps.is_sorted_by(|a, b| a.at_s < b.at_s), "{}", story.id);
                for spec in story.groups() {
                    spec.load().unwrap_or_else(|error| panic!("{} on {workers}: {error}", story.id));
                    promises_sql(&spec.promises).expect("promises");
                    let cpu = promised(spec);
                    assert_eq!(cpu == 0.0, story.id == "shops", "{}: the others promise", story.id);
                    assert!(
                        (0.0..=0.8).contains(&cpu),
                        "{} on {workers}: {cpu} cores of one worker",
                        story.id
                    );
                }
            }
        }
    }

    /// The one that a story says sleeps is the one that does, and has the least penalty.
    #[test]
    fn bronze_sleeps() {
        let story = overbooking(1.0);
        let of_shape = |kind| story.groups().filter(move |spec| spec.shape.kind == kind);
        let asleep: Vec<&str> = of_shape(shape::Kind::Step).map(|spec| spec.name.as_str()).collect();
        assert_eq!(asleep, ["bronze"]);
        let penalty = |spec: &GroupSpec| spec.promises["penalty"].as_i64().expect("a number");
        let least = story.groups().min_by_key(|spec| penalty(spec)).expect("groups");
        assert_eq!(least.name, "bronze");
        assert!(story.steps[0].text.contains("Bronze sleeps"));
    }

    #[test]
    fn only_the_story_of_overbooking_promises_more_than_there_is() {
        for workers in [1usize, 2, 8] {
            for story in all(workers) {
                let mut now = std::collections::BTreeMap::new();
                let mut most: f64 = 0.0;
                for change in story.steps.iter().flat_map(|step| &step.changes) {
                    match change {
                        Change::Group(spec) => {
                            now.insert(spec.name.as_str(), promised(spec) * f64::from(spec.tenants));
                        }
                        Change::Leave(name) => {
                            now.remove(name).unwrap_or_else(|| panic!("{}: {name} is not there", story.id));
                        }
                        Change::Server(..) => {}
                    }
                    most = most.max(now.values().sum());
                }
                let has_enough = most <= 0.8 * workers as f64 + 1e-9;
                assert_eq!(has_enough, story.id != "overbooking", "{}: {most} of {workers}", story.id);
            }
        }
    }
}
