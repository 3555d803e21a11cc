//! What a terminal asks for: the deck of transactions (clause 5.2.4.2) and the input of each (clauses 2.4.1 to 2.8.1).

use super::Scale;
use super::random::TpccRandom;
use crate::random::Draw as _;

/// A customer as a transaction names one: by number, or 60 times in a hundred by last name.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Id(i32),
    Name(String),
}

#[derive(Clone, Debug)]
pub(super) struct OrderLine {
    pub(super) item: i32,
    pub(super) supply_warehouse: i32,
    pub(super) quantity: i32,
}

#[derive(Clone, Debug)]
pub(super) enum Input {
    NewOrder { district: i32, customer: i32, lines: Vec<OrderLine> },
    Payment { district: i32, customer_warehouse: i32, customer_district: i32, who: Who, cents: u32 },
    OrderStatus { district: i32, who: Who },
    Delivery { carrier: i32 },
    StockLevel { threshold: i32 },
}

/// Draws what one terminal asks for.
pub(super) struct Inputs {
    random: TpccRandom,
    scale: Scale,
    /// The terminal's own.
    pub(super) warehouse: i32,
    pub(super) district: i32,
    deck: Vec<usize>,
}

fn signed(value: u32) -> i32 {
    i32::try_from(value).expect("TPC-C's numbers fit an int")
}

impl Inputs {
    /// Those of terminal `number`, counted from 0.
    pub(super) fn new(random: TpccRandom, scale: Scale, number: u32) -> Inputs {
        let warehouse = signed(number % scale.warehouses + 1);
        let district = signed(number / scale.warehouses % scale.districts + 1);
        Inputs { random, scale, warehouse, district, deck: Vec::new() }
    }

    /// Districts of a warehouse.
    pub(super) fn districts(&self) -> i32 {
        signed(self.scale.districts)
    }

    /// Draws the next transaction from a shuffled deck of 23 cards (clause 5.2.4.2: 10, 10, 1, 1, 1) and its input.
    pub(super) fn choose(&mut self) -> (usize, Input) {
        if self.deck.is_empty() {
            let order = self.random.permutation(23);
            self.deck = order
                .into_iter()
                .map(|card| match card {
                    1..=10 => 0,
                    11..=20 => 1,
                    21 => 2,
                    22 => 3,
                    _ => 4,
                })
                .collect();
        }
        let kind = self.deck.pop().expect("the deck was just filled");
        let input = match kind {
            0 => self.new_order_input(),
            1 => self.payment_input(),
            2 => {
                let district = signed(self.random.uniform(1, self.scale.districts));
                Input::OrderStatus { district, who: self.who() }
            }
            3 => Input::Delivery { carrier: signed(self.random.uniform(1, 10)) },
            _ => Input::StockLevel { threshold: signed(self.random.uniform(10, 20)) },
        };
        (kind, input)
    }

    fn who(&mut self) -> Who {
        if self.random.percent(60) {
            Who::Name(self.random.last_name(self.scale.customers))
        } else {
            Who::Id(signed(self.random.customer_id(self.scale.customers)))
        }
    }

    /// Another warehouse than the home one, or the home one where there is no other.
    fn other_warehouse(&mut self) -> i32 {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let drawn = signed(self.random.uniform(1, self.scale.warehouses - 1));
        if drawn >= self.warehouse { drawn + 1 } else { drawn }
    }

    fn new_order_input(&mut self) -> Input {
        let district = signed(self.random.uniform(1, self.scale.districts));
        let customer = signed(self.random.customer_id(self.scale.customers));
        let count = self.random.uniform(5, 15);
        let mut lines: Vec<OrderLine> = (0..count)
            .map(|_| OrderLine {
                item: signed(self.random.item_id(self.scale.items)),
                supply_warehouse: if self.random.percent(1) {
                    self.other_warehouse()
                } else {
                    self.warehouse
                },
                quantity: signed(self.random.uniform(1, 10)),
            })
            .collect();
        // One in a hundred ends with an item that is not there and rolls back (clause 2.4.1.4).
        if self.random.percent(1) {
            lines.last_mut().expect("at least five lines").item = signed(self.scale.items) + 1;
        }
        // Stock in one order everywhere, so that two New-Orders do not lock each other out.
        lines.sort_by_key(|line| (line.item > signed(self.scale.items), line.supply_warehouse, line.item));
        Input::NewOrder { district, customer, lines }
    }

    fn payment_input(&mut self) -> Input {
        let district = signed(self.random.uniform(1, self.scale.districts));
        let (customer_warehouse, customer_district) = if self.random.percent(85) {
            (self.warehouse, district)
        } else {
            (self.other_warehouse(), signed(self.random.uniform(1, self.scale.districts)))
        };
        let who = self.who();
        Input::Payment {
            district,
            customer_warehouse,
            customer_district,
            who,
            cents: self.random.uniform(100, 500_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::random::{NuRand, last_name_of};
    use super::*;

    const DECKS: u32 = 2_174;

    /// The second terminal of warehouse 2 of 4, all of the specification's size.
    fn inputs() -> Inputs {
        let inputs = Inputs::new(TpccRandom::new(1, NuRand::RUN), Scale::new(4, 1.0).expect("a scale"), 5);
        assert_eq!((inputs.warehouse, inputs.district), (2, 2));
        inputs
    }

    /// So many of all draws hit, as a chance of `percent` makes it but for four standard deviations.
    #[track_caller]
    fn assert_about(percent: u32, hits: u32, draws: u32) {
        let (chance, draws) = (f64::from(percent) / 100.0, f64::from(draws));
        let deviation = (draws * chance * (1.0 - chance)).sqrt();
        let off = f64::from(hits) - draws * chance;
        assert!(off.abs() <= 4.0 * deviation, "{hits} of {draws} are not {percent} %: {off} from the mean");
    }

    #[test]
    fn each_deck_has_the_specified_cards_in_an_order_of_its_own() {
        let mut inputs = inputs();
        let mut places_of_delivery = BTreeSet::new();
        for _ in 0..DECKS {
            let mut kinds = [0; 5];
            for place in 0..23 {
                let (kind, _) = inputs.choose();
                kinds[kind] += 1;
                if kind == 3 {
                    places_of_delivery.insert(place);
                }
            }
            assert_eq!(kinds, [10, 10, 1, 1, 1]);
        }
        assert_eq!(places_of_delivery.len(), 23);
    }

    #[test]
    fn inputs_are_as_often_remote_by_name_and_wrong_as_specified() {
        let mut inputs = inputs();
        let names: BTreeSet<String> = (0..1000).map(last_name_of).collect();
        let (mut orders, mut rolled_back, mut lines_drawn, mut remote_lines, mut odd_items) = (0, 0, 0, 0, 0);
        let (mut payments, mut remote_payments) = (0, 0);
        let (mut customers, mut by_name, mut odd_customers) = (0, 0, 0);
        let mut check_who = |who: &Who| {
            customers += 1;
            match who {
                Who::Name(name) => {
                    by_name += 1;
                    assert!(names.contains(name), "{name}");
                }
                Who::Id(id) => {
                    assert!((1..=3000).contains(id));
                    odd_customers += u32::from(id % 2 == 1);
                }
            }
        };
        for _ in 0..23 * DECKS {
            match inputs.choose().1 {
                Input::NewOrder { district, customer, lines } => {
                    orders += 1;
                    assert!((1..=10).contains(&district) && (1..=3000).contains(&customer));
                    assert!((5..=15).contains(&lines.len()));
                    let (last, others) = lines.split_last().expect("at least five");
                    rolled_back += u32::from(last.item == 100_001);
                    assert!((1..=100_001).contains(&last.item));
                    assert!(others.iter().all(|line| (1..=100_000).contains(&line.item)));
                    for line in &lines {
                        lines_drawn += 1;
                        assert!(
                            (1..=10).contains(&line.quantity) && (1..=4).contains(&line.supply_warehouse)
                        );
                        remote_lines += u32::from(line.supply_warehouse != 2);
                        odd_items += u32::from(line.item <= 100_000 && line.item % 2 == 1);
                    }
                }
                Input::Payment { district, customer_warehouse, customer_district, who, cents } => {
                    payments += 1;
                    assert!((1..=10).contains(&district) && (1..=10).contains(&customer_district));
                    assert!((1..=4).contains(&customer_warehouse) && (100..=500_000).contains(&cents));
                    remote_payments += u32::from(customer_warehouse != 2);
                    assert!(customer_warehouse != 2 || customer_district == district);
                    check_who(&who);
                }
                Input::OrderStatus { district, who } => {
                    assert!((1..=10).contains(&district));
                    check_who(&who);
                }
                Input::Delivery { carrier } => assert!((1..=10).contains(&carrier)),
                Input::StockLevel { threshold } => assert!((10..=20).contains(&threshold)),
            }
        }
        assert_eq!((orders, payments), (10 * DECKS, 10 * DECKS));
        assert_about(1, remote_lines, lines_drawn);
        assert_about(1, rolled_back, orders);
        assert_about(15, remote_payments, payments);
        assert_about(60, by_name, customers);
        // NURand is two draws or-ed, and its ranges and constants keep the lowest bit.
        assert_about(75, odd_items, lines_drawn - rolled_back);
        assert_about(75, odd_customers, customers - by_name);
        // 5 to 15 lines, each as often as the others: a standard deviation of the root of ten.
        let off = f64::from(lines_drawn) - 10.0 * f64::from(orders);
        assert!(
            off.abs() <= 4.0 * (10.0 * f64::from(orders)).sqrt(),
            "{lines_drawn} lines of {orders} orders"
        );
    }

    #[test]
    fn where_there_is_one_warehouse_all_is_local() {
        let mut inputs =
            Inputs::new(TpccRandom::new(1, NuRand::RUN), Scale::new(1, 0.01).expect("a scale"), 3);
        for _ in 0..2_000 {
            match inputs.choose().1 {
                Input::NewOrder { lines, .. } => assert!(lines.iter().all(|line| line.supply_warehouse == 1)),
                Input::Payment { customer_warehouse, .. } => assert_eq!(customer_warehouse, 1),
                _ => {}
            }
        }
    }
}
