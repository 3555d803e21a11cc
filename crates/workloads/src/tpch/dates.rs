//! The dates of the population: from 1992-01-01 on, by number.

/// The current date of the specification, 1995-06-17, and the last order's, 151 days before the end of 1998.
pub(super) const CURRENT: usize = 1_263;
pub(super) const LAST_ORDER: usize = 2_405;

/// The dates as text.
pub(super) struct Calendar {
    days: Vec<String>,
}

impl Calendar {
    pub(super) fn new() -> Calendar {
        let mut days = Vec::with_capacity(2_557);
        for year in 1992u32..=1998 {
            let february = if year.is_multiple_of(4) { 29 } else { 28 };
            for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                days.extend((1..=length).map(|day| format!("{year}-{month:02}-{day:02}")));
            }
        }
        Calendar { days }
    }

    pub(super) fn day(&self, number: usize) -> &str {
        &self.days[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_numbers() {
        let calendar = Calendar::new();
        assert_eq!(calendar.day(0), "1992-01-01");
        assert_eq!(calendar.day(CURRENT), "1995-06-17");
        assert_eq!(calendar.day(LAST_ORDER), "1998-08-02");
        assert_eq!(calendar.days.last().expect("days"), "1998-12-31");
        // The last line of the last order is received within 121 + 30 days.
        assert_eq!(LAST_ORDER + 151, calendar.days.len() - 1);
    }
}
