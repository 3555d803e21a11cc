//! A shopper: one visit after the other over one connection, with the suite's default parameters.

use rand::rngs::SmallRng;

use super::names;
use super::population::Customer;
use super::purchase::{Item, purchase};
use super::size::{Size, is_popular};
use super::statements::Statements;
use crate::Result;
use crate::connection::{Connection, Prepared};
use crate::load::{Outcome, Transactor};
use crate::random::Draw as _;

/// The steps of a visit in the order of the report.
pub(super) const KINDS: [&str; 6] =
    ["Login", "New customer", "Browse category", "Browse actor", "Browse title", "Purchase"];
pub(super) const PURCHASE: usize = 5;

/// Of a hundred visitors, those that were never there before.
const NEW_PERCENT: u32 = 20;
/// Searches of a visit, titles asked for in a search, titles in the cart: 3, 5 and 5 on average.
const SEARCHES_MAX: u32 = 5;
const BATCH_MAX: i64 = 9;
const CART_MAX: u32 = 9;
/// What one of the popular titles counts beside the others when a cart is filled.
const POPULAR_TIMES: u32 = 10;
/// New user names are drawn from so many.
const NEW_NAMES: u32 = 1_000_000_000;

/// A visit's step with its input, so that a retry asks for the same again.
enum Step {
    /// Nobody is there.
    Away,
    Login {
        customer: u32,
    },
    NewCustomer(Box<Customer>),
    ByCategory {
        category: i16,
        most: i64,
    },
    ByActor {
        actor: String,
        most: i64,
    },
    ByTitle {
        title: String,
        most: i64,
    },
    Purchase {
        cart: Vec<Item>,
    },
}

/// A client of the store.
pub struct Shopper {
    connection: Connection,
    statements: Statements,
    random: SmallRng,
    size: Size,
    step: Step,
    searches_left: u32,
    /// Who visits; 0 before the login.
    customer: i32,
}

impl Shopper {
    pub(super) async fn new(mut connection: Connection, size: Size, random: SmallRng) -> Result<Shopper> {
        let statements = Statements::prepare(&mut connection).await?;
        Ok(Shopper { connection, statements, random, size, step: Step::Away, searches_left: 0, customer: 0 })
    }

    fn arrive(&mut self) -> Step {
        let r = &mut self.random;
        self.searches_left = r.uniform(1, SEARCHES_MAX);
        self.customer = 0;
        if r.percent(NEW_PERCENT) {
            let is_american = r.percent(50);
            Step::NewCustomer(Box::new(Customer::draw(r, is_american)))
        } else {
            Step::Login { customer: r.uniform(1, self.size.customers) }
        }
    }

    fn search(&mut self) -> Step {
        self.searches_left -= 1;
        let r = &mut self.random;
        let most = r.uniform(1, BATCH_MAX);
        match r.uniform(0, 2) {
            0 => Step::ByCategory { category: r.uniform(1, 16), most },
            1 => Step::ByActor { actor: names::any_actor(r), most },
            _ => Step::ByTitle { title: names::any_title(r), most },
        }
    }

    fn fill_cart(&mut self) -> Step {
        let count = self.random.uniform(1, CART_MAX);
        let mut cart: Vec<Item> = (0..count)
            .map(|_| Item { product: self.product(), quantity: self.random.uniform(1, 3) })
            .collect();
        // One order everywhere, so that two purchases do not lock each other out.
        cart.sort_by_key(|item| item.product);
        Step::Purchase { cart }
    }

    /// A product: each as likely as the others, popular ones ten times as likely.
    fn product(&mut self) -> u32 {
        let popular = self.size.products / 10_000;
        let drawn = self.random.uniform(1, self.size.products + popular * (POPULAR_TIMES - 1));
        if drawn <= self.size.products {
            drawn
        } else {
            let product = ((drawn - self.size.products - 1) / (POPULAR_TIMES - 1) + 1) * 10_000;
            debug_assert!(is_popular(product) && product <= self.size.products);
            product
        }
    }

    async fn log_in(&mut self, customer: u32) -> Result<()> {
        let (c, s) = (&mut self.connection, &self.statements);
        c.add(&s.log_in, &[&format!("user{customer}"), &"password"])?;
        let [found] = c.exchange_all().await?;
        self.customer = found.row()?.get(0)?;
        c.add(&s.last_bought, &[&self.customer])?;
        c.exchange().await?;
        Ok(())
    }

    /// Tries user names until one is free.
    async fn register(&mut self, new: &Customer) -> Result<()> {
        let (c, s) = (&mut self.connection, &self.statements);
        loop {
            let name = format!("newuser{}", self.random.uniform(1, NEW_NAMES));
            let (address, email) = (new.address(), new.email());
            c.add(
                &s.new_customer,
                &[
                    &new.first,
                    &new.last,
                    &address,
                    &new.city,
                    &new.state,
                    &new.zip,
                    &new.country,
                    &new.region,
                    &email,
                    &new.phone,
                    &new.card_type,
                    &new.card,
                    &new.card_expiration,
                    &name,
                    &new.age,
                    &new.income,
                    &new.gender,
                ],
            )?;
            let [made] = c.exchange_all().await?;
            if let Some(row) = made.rows.first() {
                self.customer = row.get(0)?;
                return Ok(());
            }
        }
    }

    async fn run_step(&mut self, step: &Step) -> Result<Outcome> {
        let most_of = |found: usize, most: i64| -> Result<()> {
            if usize::try_from(most).is_ok_and(|most| found <= most) {
                Ok(())
            } else {
                Err("too many titles".into())
            }
        };
        let (c, s) = (&mut self.connection, &self.statements);
        match step {
            Step::Away => unreachable!("a step was chosen"),
            Step::Login { customer } => self.log_in(*customer).await?,
            Step::NewCustomer(new) => self.register(new).await?,
            Step::ByCategory { category, most } => {
                most_of(browse(c, &s.by_category, category, most).await?, *most)?;
            }
            Step::ByActor { actor, most } => most_of(browse(c, &s.by_actor, actor, most).await?, *most)?,
            Step::ByTitle { title, most } => most_of(browse(c, &s.by_title, title, most).await?, *most)?,
            Step::Purchase { cart } => return purchase(c, s, self.customer, cart).await,
        }
        Ok(Outcome::Committed)
    }
}

/// Titles found.
async fn browse(
    c: &mut Connection,
    statement: &Prepared,
    what: &(dyn tokio_postgres::types::ToSql + Sync),
    most: &i64,
) -> Result<usize> {
    c.add(statement, &[what, most])?;
    let [found] = c.exchange_all().await?;
    Ok(found.rows.len())
}

impl Transactor for Shopper {
    fn choose(&mut self) -> usize {
        self.step = match self.step {
            Step::Away | Step::Purchase { .. } => self.arrive(),
            _ if self.searches_left > 0 => self.search(),
            _ => self.fill_cart(),
        };
        match self.step {
            Step::Away => unreachable!("a step was chosen"),
            Step::Login { .. } => 0,
            Step::NewCustomer(_) => 1,
            Step::ByCategory { .. } => 2,
            Step::ByActor { .. } => 3,
            Step::ByTitle { .. } => 4,
            Step::Purchase { .. } => PURCHASE,
        }
    }

    async fn run(&mut self, _kind: usize) -> Result<Outcome> {
        let step = std::mem::replace(&mut self.step, Step::Away);
        let outcome = self.run_step(&step).await;
        self.step = step;
        if outcome.is_err() {
            let (c, s) = (&mut self.connection, &self.statements);
            c.clear();
            // If this fails too the connection is gone, and the first error says why.
            if c.add(&s.rollback, &[]).is_ok() {
                let _ = c.exchange().await;
            }
        }
        outcome
    }

    fn follows_on(&self) -> bool {
        !matches!(self.step, Step::Purchase { .. })
    }
}
