//! An exhaustive check of the real `decide` and `apply`: every order in which a client, two workers, a clock and a code
//! host can act on one job of up to three messages, within the bounds below.
//!
//! The world holds what the core does not: what each worker believes, what is on the code host, what was promised. A
//! worker may sleep at any point (it just does not act), so it may wake when its lease was taken over; it may die
//! between an effect on the code host and the report of it, which is what a lost answer looks like.
//!
//! Time is relative: the clock stands still at `NOW`, and [`Action::Wait`] moves what the job waits for to now. That is
//! the same as moving the clock, because the core compares times with now and does nothing else with them.

mod client;
mod normal;
mod properties;
mod worker;
mod world;

use stateright::{Checker, Model, Property};

use world::{Action, Bounds, World};

/// How much may happen. One more of anything makes several times as many states, too many for every run of the tests.
const BOUNDS: Bounds = Bounds { messages: 3, mishaps: 2, interventions: 1 };

/// States of the world within [`BOUNDS`]. A change of the machine changes it: look at what the change adds or takes
/// away, then write the new number.
const STATES: usize = 804_070;

struct Machine;

impl Model for Machine {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(BOUNDS)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(action);
        // An action that changes nothing leads nowhere new.
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let checker = Machine.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), STATES, "the machine has another number of states than before");
}
