//! The text of comments (clause 4.2.2.10 and 4.2.2.14): pieces of a pool of sentences. The specification's pool has 300 MB;
//! this one is smaller, so that a load need not begin with making it.

use rand::rngs::SmallRng;

use super::words;
use crate::random::Draw as _;

const POOL_BYTES: usize = 4 << 20;

/// Sentences one after the other.
pub(super) struct Pool {
    text: String,
}

/// One word each time, by weight.
struct Choice {
    /// Words with the sums of the weights up to them.
    words: Vec<(u32, &'static str)>,
}

impl Choice {
    fn new(weighted: words::Weighted) -> Choice {
        let mut sum = 0;
        let words =
            weighted.iter().flat_map(|(weight, words)| words.split(',').map(move |word| (*weight, word)));
        Choice {
            words: words
                .map(|(weight, word)| {
                    sum += weight;
                    (sum, word)
                })
                .collect(),
        }
    }

    fn draw(&self, rng: &mut SmallRng) -> &'static str {
        let (most, _) = *self.words.last().expect("there are words");
        let drawn = rng.uniform(1, most);
        self.words[self.words.partition_point(|(sum, _)| *sum < drawn)].1
    }
}

/// The grammar.
struct Grammar {
    sentence: Choice,
    noun_phrase: Choice,
    verb_phrase: Choice,
    noun: Choice,
    verb: Choice,
    adjective: Choice,
    adverb: Choice,
    preposition: Choice,
    auxiliary: Choice,
    terminator: Choice,
}

impl Grammar {
    fn new() -> Grammar {
        Grammar {
            sentence: Choice::new(words::SENTENCES),
            noun_phrase: Choice::new(words::NOUN_PHRASES),
            verb_phrase: Choice::new(words::VERB_PHRASES),
            noun: Choice::new(words::NOUNS),
            verb: Choice::new(words::VERBS),
            adjective: Choice::new(words::ADJECTIVES),
            adverb: Choice::new(words::ADVERBS),
            preposition: Choice::new(words::PREPOSITIONS),
            auxiliary: Choice::new(words::AUXILIARIES),
            terminator: Choice::new(words::TERMINATORS),
        }
    }

    /// Writes a form with its letters replaced by what they stand for.
    fn write(&self, form: &str, rng: &mut SmallRng, text: &mut String) {
        for letter in form.chars() {
            match letter {
                'N' => self.write(self.noun_phrase.draw(rng), rng, text),
                'V' => self.write(self.verb_phrase.draw(rng), rng, text),
                'P' => {
                    text.push_str(self.preposition.draw(rng));
                    text.push_str(" the ");
                    self.write(self.noun_phrase.draw(rng), rng, text);
                }
                'T' => text.push_str(self.terminator.draw(rng)),
                'n' => text.push_str(self.noun.draw(rng)),
                'v' => text.push_str(self.verb.draw(rng)),
                'j' => text.push_str(self.adjective.draw(rng)),
                'd' => text.push_str(self.adverb.draw(rng)),
                'x' => text.push_str(self.auxiliary.draw(rng)),
                ';' => text.push(','),
                other => text.push(other),
            }
        }
    }
}

impl Pool {
    pub(super) fn new(rng: &mut SmallRng) -> Pool {
        Pool::of(POOL_BYTES, rng)
    }

    fn of(bytes: usize, rng: &mut SmallRng) -> Pool {
        let grammar = Grammar::new();
        let mut text = String::with_capacity(bytes + 256);
        while text.len() < bytes {
            grammar.write(grammar.sentence.draw(rng), rng, &mut text);
            text.push(' ');
        }
        Pool { text }
    }

    /// A piece of the text, from `least` to `most` characters long.
    pub(super) fn piece(&self, rng: &mut SmallRng, least: usize, most: usize) -> &str {
        let length = rng.uniform(least, most);
        let from = rng.uniform(0, self.text.len() - length);
        &self.text[from..from + length]
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn text_is_of_the_grammar() {
        let mut rng = SmallRng::seed_from_u64(1);
        let pool = Pool::of(200_000, &mut rng);
        assert!(pool.text.is_ascii() && !pool.text.contains(['\t', '\\', '\n']));
        // What queries 13 and 16 look for is there, and seldom enough.
        let sentences = pool.text.split(". ").count();
        let special =
            pool.text.split(". ").filter(|s| s.contains("special") && s.contains("requests")).count();
        assert!(special > 0 && special * 20 < sentences, "{special} of {sentences}");
        for wrong in ["  ", " ,", "; ;"] {
            assert!(!pool.text.contains(wrong), "\"{wrong}\"");
        }
        for _ in 0..1_000 {
            assert!((29..=116).contains(&pool.piece(&mut rng, 29, 116).len()));
        }
    }

    #[test]
    fn words_are_drawn_by_their_weights() {
        let mut rng = SmallRng::seed_from_u64(1);
        let choice = Choice::new(&[(3, "a,b"), (1, "c")]);
        let drawn: Vec<&str> = (0..7_000).map(|_| choice.draw(&mut rng)).collect();
        let count = |word: &str| drawn.iter().filter(|drawn| **drawn == word).count();
        assert!(count("a").abs_diff(3_000) < 200 && count("c").abs_diff(1_000) < 200);
    }
}
