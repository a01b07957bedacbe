//! The cost of model calls, in memory.

use async_trait::async_trait;
use journeyman_core::model::budget::Used;
use journeyman_core::ports::{NewReservation, Reservation, ReserveError, SpendingStore, StoreError, Sums};
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};
use crate::spending::{amount, check, rows, used};

/// A reservation in progress.
#[derive(Debug)]
pub(super) struct Held {
    number: i64,
    pub(super) sums: Sums,
    micros: u64,
    estimate: u64,
    expires_at: Timestamp,
}

impl Tables {
    fn used(&self, sums: &Sums) -> [Used; 3] {
        let set_aside = [
            |held: &Sums, sums: &Sums| held.job == sums.job,
            |held: &Sums, sums: &Sums| held.day == sums.day,
            |_: &Sums, _: &Sums| true,
        ];
        let mut found = [Used::default(); 3];
        for ((place, sum), concerns) in found.iter_mut().zip(rows(sums)).zip(set_aside) {
            let spent = self.spending.get(&(sums.project.clone(), sum.kind, sum.subject)).copied().unwrap_or_default();
            let held = self.reservations.iter().filter(|held| held.sums.project == sums.project);
            let held = held.filter(|held| concerns(&held.sums, sums)).map(|held| amount(held.micros));
            *place = used(spent, held.fold(0, i64::saturating_add));
        }
        found
    }

    fn add_cost(&mut self, sums: &Sums, micros: i64) {
        if self.projects.contains_key(&sums.project) {
            for sum in rows(sums) {
                let held = self.spending.entry((sums.project.clone(), sum.kind, sum.subject)).or_default();
                *held = held.saturating_add(micros).max(0);
            }
        }
    }
}

#[async_trait]
impl SpendingStore for MemoryStore {
    async fn reserve(&self, new: NewReservation) -> Result<Reservation, ReserveError> {
        let mut tables = self.tables();
        let has_expired = |held: &mut Held| held.sums.project == new.sums.project && held.expires_at <= new.now;
        for held in tables.reservations.extract_if(.., has_expired).collect::<Vec<_>>() {
            tables.add_cost(&held.sums, amount(held.estimate));
        }
        check(&new, tables.used(&new.sums))?;
        tables.last_reservation += 1;
        let number = tables.last_reservation;
        let NewReservation { sums, micros, estimate, expires_at, .. } = new;
        if tables.projects.contains_key(&sums.project) {
            tables.reservations.push(Held { number, sums, micros, estimate, expires_at });
        }
        Ok(Reservation { number, estimate })
    }

    async fn renew(&self, reservation: &Reservation, expires_at: Timestamp) -> Result<(), StoreError> {
        for held in &mut self.tables().reservations {
            if held.number == reservation.number {
                held.expires_at = expires_at;
            }
        }
        Ok(())
    }

    async fn settle(&self, sums: &Sums, reservation: Option<&Reservation>, micros: u64) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let mut booked = 0;
        if let Some(Reservation { number, estimate }) = reservation {
            let before = tables.reservations.len();
            tables.reservations.retain(|held| held.number != *number);
            if tables.reservations.len() == before {
                booked = amount(*estimate);
            }
        }
        tables.add_cost(sums, amount(micros) - booked);
        Ok(())
    }

    async fn used(&self, sums: &Sums) -> Result<[Used; 3], StoreError> {
        Ok(self.tables().used(sums))
    }
}
