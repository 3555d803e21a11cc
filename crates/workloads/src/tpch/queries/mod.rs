//! The 22 queries (clause 2.4) in PostgreSQL's dialect. Intervals are written with their unit in the text, substrings as
//! calls' standard form, limits as LIMIT, and query 15 with WITH (the specification's variant 15a) instead of a view.

mod first;
mod second;

use super::QUERIES;
use super::parameters::Parameters;

/// A query with its parameters filled in.
type Query = fn(&mut Parameters) -> String;

const TEXTS: [Query; QUERIES] = [
    first::pricing_summary,
    first::minimum_cost_supplier,
    first::shipping_priority,
    first::order_priority,
    first::local_supplier_volume,
    first::forecast_revenue,
    first::volume_shipping,
    first::market_share,
    first::product_type_profit,
    first::returned_items,
    first::important_stock,
    second::shipping_modes,
    second::customer_distribution,
    second::promotion_effect,
    second::top_supplier,
    second::parts_and_suppliers,
    second::small_quantities,
    second::large_volume_customers,
    second::discounted_revenue,
    second::potential_promotion,
    second::waiting_suppliers,
    second::sales_opportunity,
];

/// The text of a query by its number from 1 to 22.
pub(super) fn text(number: usize, parameters: &mut Parameters) -> String {
    TEXTS[number - 1](parameters)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::SmallRng;

    use super::super::scale::Scale;
    use super::*;

    #[test]
    fn parameters_are_the_validations_or_drawn() {
        let scale = Scale::new(1.0).expect("in range");
        let mut validation = Parameters { scale, rng: None };
        let mut random = Parameters { scale, rng: Some(SmallRng::seed_from_u64(1)) };
        for number in 1..=QUERIES {
            let fixed = text(number, &mut validation);
            assert_eq!(fixed, text(number, &mut validation), "query {number}");
            assert!(!fixed.contains(['{', '}']), "query {number}: {fixed}");
            let drawn: std::collections::BTreeSet<String> =
                (0..100).map(|_| text(number, &mut random)).collect();
            assert!(drawn.len() > 2, "query {number} has parameters");
        }
        assert!(text(11, &mut validation).contains("* 0.000100000000"), "{}", text(11, &mut validation));
        assert!(text(4, &mut validation).contains("date '1993-07-01'"));
        assert!(text(22, &mut validation).contains("'13', '31', '23', '29', '30', '18', '17'"));
    }
}
