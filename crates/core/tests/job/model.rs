//! An exhaustive check of the real `decide` and `apply`: every order in which a client, two workers, a clock and a code
//! host can act on one job of up to three messages, within the bounds below.
//!
//! The world has what the core does not have: the state of each worker as the worker knows it, the content of the code
//! host, and the results that receipts have promised. A worker may pause at any point (it just does not act), so it may
//! continue after its lease was taken over. It may die between an effect on the code host and the report of that
//! effect, which has the same consequences as a lost response.
//!
//! Time is relative: the clock is stopped at `NOW`, and [`Action::Wait`] moves the time that the job waits for to
//! `NOW`. This is equivalent to moving the clock, because the core only compares times with the current time.

mod client;
mod normal;
mod properties;
mod worker;
mod world;

use stateright::{Checker, Model, Property};

use world::{Action, Bounds, World};

/// The limits on what may happen. Each increment multiplies the number of states, which would then take too long for
/// every run of the tests.
const BOUNDS: Bounds = Bounds { messages: 3, mishaps: 2, interventions: 1 };

/// The number of states of the world within [`BOUNDS`]. If a change of the state machine changes it, check which states
/// the change adds or removes, then update the number.
const STATES: usize = 1_246_240;

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
        // Skip actions that change nothing.
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
    assert_eq!(checker.unique_state_count(), STATES, "the number of states has changed");
}
