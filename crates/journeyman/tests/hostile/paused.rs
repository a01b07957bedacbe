//! Tests of idle agents: none of their processes runs between turns, whatever they have scheduled.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use journeyman_testkit::until;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::fixtures::site_with;

/// A program that a timer continues every 20 ms (timer_create and timer_settime, signal 18), and that sends requests to
/// the proxy and records the answers in `beats`.
const BEAT: &str = r#"use IO::Socket::INET;
$SIG{CONT} = sub {};
$SIG{PIPE} = "IGNORE";
my ($event, $id, $none) = (pack("qiix48", 0, 18, 0), "\0" x 8, 0);
syscall(222, $none, $event, $id) == 0 or die "no timer";
my ($timer, $spec) = (unpack("i", $id), pack("q4", 0, 20000000, 0, 20000000));
syscall(223, $timer, $none, $spec, $none) == 0 or die "the timer was not set";
for (my $i = 0;; $i++) {
    my $heard = "nothing\n";
    if (my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:8812", Timeout => 1)) {
        print $s "CONNECT host-$i.example:443 HTTP/1.1\r\n\r\n";
        $s->flush;
        $heard = <$s> // $heard;
    }
    open(my $beats, ">>", "$ENV{HOME}/beats");
    print $beats "beat $heard";
    close($beats);
    select(undef, undef, undef, 0.05);
}
"#;

/// The length of the longest line that the program writes outside of a sandbox, in bytes.
const LONGEST_BEAT: u64 = "beat nothing\n".len() as u64;

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |note| note.len())
}

/// Waits until a file has grown; `what` says what that shows.
fn wait_for_growth(file: &Path, what: &str) {
    let before = length(file);
    until(what, || (length(file) > before).then_some(()));
}

/// Returns the `beats` file of the only job.
fn beats(data: &Path) -> PathBuf {
    let job = std::fs::read_dir(data.join("workspaces")).unwrap().next().unwrap().unwrap();
    job.path().join("home/beats")
}

#[test]
fn a_paused_agent_does_not_wake_itself() {
    let site = site_with("warm-agents = 1\n");
    site.people_commit("beat.pl", BEAT);
    let service = site.start();
    let begin = "setsid perl beat.pl < /dev/null > /dev/null 2>&1 & while [ ! -s ~/beats ]; do sleep 0.05; done";
    let job = service.create(&format!("[[run {begin}]] [[write a|1]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let beats = beats(&site.path("data"));
    assert!(std::fs::read_to_string(&beats).unwrap().contains("HTTP/1.1"), "the proxy answered in the turn");
    let before = length(&beats);
    assert!(before > 0);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(length(&beats), before, "nothing of the agent runs after its turn");
    // The program was frozen and not ended: it continues in the next turn, and the proxy answers it again.
    service
        .send(&job, "[[run n=$(grep -c HTTP ~/beats); while [ $(grep -c HTTP ~/beats) -le $n ]; do sleep 0.05; done]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let before = length(&beats);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(length(&beats), before, "nothing of the agent runs after the second turn");
}

#[test]
fn control_a_stopped_program_wakes_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (program, beats) = (dir.path().join("beat.pl"), dir.path().join("beats"));
    std::fs::write(&program, BEAT).unwrap();
    // A stop discards a pending signal of the timer, and Linux then never sends another one. Such a program stays stopped.
    until("a signal that stops it is not enough", || {
        let mut child = Command::new("perl").arg(&program).env("HOME", dir.path()).spawn().unwrap();
        wait_for_growth(&beats, "it runs");
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let before = length(&beats);
        // The program may have been about to write one of the lines when the signal came.
        let woke = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            length(&beats) > before + 2 * LONGEST_BEAT
        });
        child.kill().unwrap();
        child.wait().unwrap();
        woke.then_some(())
    });
}
