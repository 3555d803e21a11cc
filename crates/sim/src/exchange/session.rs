//! What a client does: transactions of random kinds at random isolation, told what it did.

use std::cell::RefCell;
use std::rc::Rc;

use base::SqlState;
use tenant::Isolation;
use tenant::ddl::Behavior;
use types::Datum;

use super::model::{Kind, Model, SCRATCHES, read_all, snapshot};
use super::schema::{ACCOUNTS, BALANCE, SEQUENCE, create_scratch};
use super::transaction::{Fate, Transaction};
use crate::{Dice, Home, Stop, require};

/// A session's life, until the power goes.
pub(super) async fn run(home: Rc<Home>, model: Rc<RefCell<Model>>, number: u32) -> Result<(), Stop> {
    let dice = Dice::of(home.world());
    loop {
        dice.pause(400).await;
        let isolation = match dice.below(6) {
            0 => Isolation::RepeatableRead,
            1 => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        };
        let mut session = Session { dice: &dice, model: &model, home: &home, number };
        match session.transaction(isolation).await {
            Ok(()) | Err(Fate::Stop(Stop::Fault(_))) => {}
            Err(Fate::Stop(stop)) => return Err(stop),
            Err(Fate::Refused(error)) => Stop::unless_expected(home.world(), &error)?,
        }
    }
}

struct Session<'a> {
    dice: &'a Dice,
    home: &'a Rc<Home>,
    model: &'a Rc<RefCell<Model>>,
    number: u32,
}

fn number(value: &Datum) -> i64 {
    match value {
        Datum::Int8(n) => *n,
        other => panic!("{other:?} is no bigint"),
    }
}

impl Session<'_> {
    async fn transaction(&mut self, isolation: Isolation) -> Result<(), Fate> {
        let kind = self.dice.below(100);
        if kind < 4 {
            return Ok(self.hold_snapshot().await?);
        }
        let isolation = if kind >= 94 { Isolation::ReadCommitted } else { isolation };
        let mut txn = Transaction::begin(self.home, self.model, self.number, isolation);
        match kind {
            4..35 => self.transfer(&mut txn).await?,
            35..55 => self.place_offer(&mut txn).await?,
            55..70 => self.take_offers(&mut txn).await?,
            70..90 => self.audit(&mut txn).await?,
            90..94 => self.store_blob(&mut txn).await?,
            94..97 => self.change_schema(&mut txn).await?,
            _ => self.renew_account(&mut txn).await?,
        }
        if self.dice.percent(5) {
            txn.abort();
            return Ok(());
        }
        txn.commit().await
    }

    /// The client may see replies within the transaction, and takes its time.
    async fn between(&self, txn: &mut Transaction) -> Result<(), Fate> {
        if self.dice.percent(30) {
            txn.reply().await?;
        }
        if self.dice.percent(15) {
            txn.pour().await?;
        }
        self.dice.pause(100).await;
        Ok(())
    }

    async fn change_balance(&self, txn: &mut Transaction, account: i64, change: i64) -> Result<(), Fate> {
        let note = "n".repeat(self.dice.below(120) as usize);
        let token = self.model.borrow_mut().token();
        txn.statement(|turn| {
            // A row is there always, but under READ COMMITTED it may have gone and come back.
            let Some(mut row) = turn.lock(Kind::Account, account)? else { return Ok(()) };
            row[1] = Datum::Int8(number(&row[1]) + change);
            row[2] = Datum::Text(note.as_str().into());
            turn.update(Kind::Account, row)?;
            turn.insert(Kind::Receipt, vec![Datum::Int8(token), Datum::Int8(account), Datum::Int8(change)])
        })
        .await
    }

    /// A snapshot shows what was there when it was taken, whatever is committed, checkpointed and evicted meanwhile.
    async fn hold_snapshot(&self) -> Result<(), Stop> {
        let (commit, view) = snapshot(self.home)?;
        let expected = self.model.borrow().head.clone();
        self.dice.pause(20_000).await;
        let found = read_all(self.home, &view)?;
        require!(found == expected, "the snapshot of commit {commit} has changed");
        Ok(())
    }

    async fn transfer(&self, txn: &mut Transaction) -> Result<(), Fate> {
        let (from, to) = (self.dice.between(1, ACCOUNTS), self.dice.between(1, ACCOUNTS));
        let amount = self.dice.between(1, 50);
        self.change_balance(txn, from, -amount).await?;
        self.between(txn).await?;
        if self.dice.percent(20) {
            let savepoint = txn.savepoint();
            self.change_balance(txn, to, 3 * amount).await?;
            txn.roll_back_to(&savepoint);
        }
        self.change_balance(txn, to, amount).await
    }

    async fn place_offer(&self, txn: &mut Transaction) -> Result<(), Fate> {
        for _ in 0..1 + self.dice.below(4) {
            let (account, price) = (self.dice.between(1, ACCOUNTS), self.dice.between(1, 30));
            txn.statement(|turn| {
                let id = turn.nextval(SEQUENCE)?;
                turn.insert(Kind::Offer, [id, account, price, 1].map(Datum::Int8).to_vec())
            })
            .await?;
            self.between(txn).await?;
        }
        Ok(())
    }

    /// Deletes the cheapest offers, which other sessions want too.
    async fn take_offers(&self, txn: &mut Transaction) -> Result<(), Fate> {
        let offers = txn.query(|turn| turn.all(Kind::Offer, true)).await?;
        self.between(txn).await?;
        for offer in offers.iter().take(1 + self.dice.below(6) as usize) {
            let (id, account, price) = (number(&offer[0]), number(&offer[1]), number(&offer[2]));
            let taken = txn.statement(|turn| turn.delete(Kind::Offer, id)).await?;
            if taken {
                let seller = self.dice.between(1, ACCOUNTS);
                self.change_balance(txn, account, -price).await?;
                self.change_balance(txn, seller, price).await?;
            }
        }
        Ok(())
    }

    /// Money is neither made nor lost, whenever one looks.
    async fn audit(&self, txn: &mut Transaction) -> Result<(), Fate> {
        let by_index = self.dice.percent(50);
        let accounts = txn.query(|turn| turn.all(Kind::Account, by_index)).await?;
        let total: i64 = accounts.iter().map(|row| number(&row[1])).sum();
        if total != ACCOUNTS * BALANCE {
            return Err(Stop::violation(format!("all balances together are {total}")).into());
        }
        self.between(txn).await?;
        let kind = [Kind::Offer, Kind::Receipt, Kind::Blob][self.dice.below(3) as usize];
        txn.query(|turn| turn.all(kind, false)).await?;
        let account = self.dice.between(1, ACCOUNTS);
        txn.query(|turn| turn.get(Kind::Account, account)).await?;
        txn.reply().await?;
        Ok(())
    }

    /// A value of several pages, at times of more than a group of the log.
    async fn store_blob(&self, txn: &mut Transaction) -> Result<(), Fate> {
        let len = if self.dice.percent(10) { 300_000 } else { self.dice.below(30_000) as usize };
        let id = self.dice.between(1, 8);
        let letter = char::from(b'a' + self.dice.below(26) as u8);
        let bytes = letter.to_string().repeat(len);
        let row = vec![Datum::Int8(id), Datum::Text(bytes.into())];
        txn.statement(|turn| match turn.lock(Kind::Blob, id)? {
            Some(_) if len.is_multiple_of(3) => turn.delete(Kind::Blob, id).map(drop),
            Some(_) => turn.update(Kind::Blob, row.clone()).map(drop),
            None => turn.insert(Kind::Blob, row.clone()),
        })
        .await
        .or_else(|fate| match fate {
            // Another session was first.
            Fate::Refused(error) if error.state() == SqlState::UNIQUE_VIOLATION => Ok(()),
            fate => Err(fate),
        })
    }

    /// Makes a table with rows, or drops or empties one.
    async fn change_schema(&self, txn: &mut Transaction) -> Result<(), Fate> {
        let n = self.dice.below(SCRATCHES.into()) as u8;
        let (rows, truncate) = (self.dice.below(300) as i64, self.dice.percent(30));
        txn.statement(|turn| {
            turn.view.ddl()?;
            let scratch = Kind::ScratchRow(n);
            if !turn.has((Kind::Scratch, n.into())) {
                create_scratch(&mut turn.view.ddl()?, n)?;
                turn.changed((Kind::Scratch, n.into()), Some(Vec::new()));
                return (0..rows)
                    .try_for_each(|id| turn.insert(scratch, [id, id % 7].map(Datum::Int8).to_vec()));
            }
            let table = turn.view.catalog().relation_in(tenant::catalog::PUBLIC_SCHEMA, &scratch.name());
            let table = table.expect("the model has it").oid();
            for id in turn.ids(scratch) {
                turn.changed((scratch, id), None);
            }
            if truncate {
                return turn.view.ddl()?.truncate(&[table], false);
            }
            turn.view.ddl()?.drop_relations(&[table], Behavior::Restrict)?;
            turn.changed((Kind::Scratch, n.into()), None);
            Ok(())
        })
        .await
    }

    /// Deletes an account and makes it anew, which takes its offers along.
    async fn renew_account(&self, txn: &mut Transaction) -> Result<(), Fate> {
        let account = self.dice.between(1, ACCOUNTS);
        txn.statement(|turn| {
            let Some(row) = turn.lock(Kind::Account, account)? else { return Ok(()) };
            let offers = turn.all(Kind::Offer, false)?;
            turn.delete(Kind::Account, account)?;
            for offer in offers.iter().filter(|offer| number(&offer[1]) == account) {
                turn.changed((Kind::Offer, number(&offer[0])), None);
            }
            // The cascade runs at the statement's end, so the new account has the old one's offers gone first.
            turn.view.finish_statement()?;
            turn.insert(Kind::Account, row)
        })
        .await
    }
}
