//! The options that were given, apart from the defaults: what goes over a size's, and what a size is.

use std::fmt;
use std::str::FromStr;

use super::{Promise, PromiseKey};
use crate::option::OptionError;

/// Some of a promise's options, each with its value.
///
/// A tenant's promise is made of layers: the defaults, over them its size's options, over them those given to the tenant by
/// hand. Example: the size says `cpu = 0.5, cpu_max = 1`, the tenant `cpu_max = 2`: promised are 0.5 cores, 2 at most. If the
/// size then says `cpu = 1`, the tenant has 1, and still 2 at most.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PromiseOptions {
    /// Defaults where nothing was given.
    values: Promise,
    /// By [`PromiseKey`], a bit each.
    given: u32,
}

const _: () = assert!(PromiseKey::ALL.len() <= u32::BITS as usize);

const fn bit(key: PromiseKey) -> u32 {
    1 << key as u32
}

impl PromiseOptions {
    /// Gives an option a value; the errors of [`Promise::set`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        self.values.set(key, value)?;
        self.given |= bit(PromiseKey::from_name(key)?);
        Ok(())
    }

    /// Takes an option back, given or not. An error if there is none of that name.
    pub fn reset(&mut self, key: &str) -> Result<(), OptionError> {
        let key = PromiseKey::from_name(key)?;
        self.values.take_over(key, &Promise::default());
        self.given &= !bit(key);
        Ok(())
    }

    /// An option's value, as [`Promise::get`] writes it; `None` if it was not given.
    pub fn get(&self, key: PromiseKey) -> Option<String> {
        (self.given & bit(key) != 0).then(|| self.values.get(key))
    }

    /// `base` with what was given instead of its own. Not validated: the two may contradict each other.
    pub fn over(&self, base: &Promise) -> Promise {
        let mut promise = base.clone();
        for key in self.keys() {
            promise.take_over(key, &self.values);
        }
        promise
    }

    fn keys(&self) -> impl Iterator<Item = PromiseKey> + '_ {
        PromiseKey::ALL.iter().copied().filter(|key| self.given & bit(*key) != 0)
    }
}

impl Promise {
    /// Sets an option to what it is in another promise.
    fn take_over(&mut self, key: PromiseKey, from: &Promise) {
        self.set(key.as_str(), &from.get(key)).expect("a shown value reads back");
    }
}

impl fmt::Display for PromiseOptions {
    /// `cpu = 0.5, memory = 2GiB`; empty if none was given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for key in self.keys() {
            write!(f, "{separator}{} = {}", key.as_str(), self.values.get(key))?;
            separator = ", ";
        }
        Ok(())
    }
}

impl FromStr for PromiseOptions {
    type Err = OptionError;

    /// Reads what [`PromiseOptions`] and [`Promise`] display.
    fn from_str(text: &str) -> Result<PromiseOptions, OptionError> {
        let mut options = PromiseOptions::default();
        for option in text.split(", ").filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once(" = ").unwrap_or((option, ""));
            options.set(key, value)?;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(text: &str) -> PromiseOptions {
        text.parse().expect("well-formed")
    }

    #[test]
    fn what_is_given_by_hand_goes_over_the_size_and_that_over_the_defaults() {
        let size = options("cpu = 0.5, cpu_max = 1, memory = 1GiB");
        let mut by_hand = options("cpu_max = none, iops = 20");
        let promise = by_hand.over(&size.over(&Promise::default()));
        assert_eq!(promise.to_string(), "cpu = 0.5, iops = 20, memory = 1GiB");
        by_hand.reset("CPU_MAX").expect("an option");
        assert_eq!(by_hand.to_string(), "iops = 20");
        assert_eq!(by_hand.get(PromiseKey::CpuMax), None);
        let promise = by_hand.over(&size.over(&Promise::default()));
        assert_eq!(promise.cpu.max, size.over(&Promise::default()).cpu.max);
        assert!(by_hand.reset("gpu").is_err());
    }

    #[test]
    fn an_option_given_its_default_is_given() {
        let given = options("cpu_max = none, iops = 0");
        assert_ne!(given, PromiseOptions::default());
        assert_eq!(given.to_string(), "cpu_max = none, iops = 0");
        assert_eq!(options(&given.to_string()), given);
        assert!("cpu".parse::<PromiseOptions>().is_err());
    }

    proptest! {
        #[test]
        fn given_options_survive_their_text_and_what_is_reset_leaves_no_trace(
            keys in prop::collection::vec((0..PromiseKey::ALL.len(), 1..1000u32), 0..12),
            reset in prop::collection::vec(0..PromiseKey::ALL.len(), 0..6),
        ) {
            let mut options = PromiseOptions::default();
            let mut model = std::collections::BTreeMap::new();
            for (key, value) in keys {
                let key = PromiseKey::ALL[key];
                let value = if key == PromiseKey::IoPromise { "average".to_owned() } else { value.to_string() };
                options.set(key.as_str(), &value).unwrap();
                model.insert(key, value);
            }
            for key in reset {
                options.reset(PromiseKey::ALL[key].as_str()).unwrap();
                model.remove(&PromiseKey::ALL[key]);
            }
            let mut of_model = PromiseOptions::default();
            for (key, value) in &model {
                of_model.set(key.as_str(), value).unwrap();
            }
            prop_assert_eq!(&options, &of_model);
            prop_assert_eq!(options.to_string().parse::<PromiseOptions>().unwrap(), options.clone());
            let mut promise = Promise::default();
            for (key, value) in &model {
                promise.set(key.as_str(), value).unwrap();
            }
            prop_assert_eq!(options.over(&Promise::default()), promise);
        }
    }
}
