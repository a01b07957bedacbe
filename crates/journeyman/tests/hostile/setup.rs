//! Tests of agents that try to get a secret of the setup command: nothing that they leave behind runs with the secret,
//! however it got into the workspace. The workspace of an agent that fails is rebuilt and set up again.

use serde_json::json;

use crate::program::fixtures::{Service, Site, git, is_running, shared};

const VALUE: &str = "s3cret-9f8e-s3cret";

/// The secret in the form in which an agent would take it out of the sandbox, so that no redaction recognizes it.
const STOLEN: &str = "terc3s-e8f9-terc3s";

/// The last prompt of an attack: the agent takes the output of the planted code, and records whether the setup command
/// had the secret.
const TAKE: &str = "[[run cat leak ~/leak 2>/dev/null | rev > stolen; cat ~/made > seen]]";

/// An attack: the setup command, which records the length of the secret in `~/made`; files that people have committed;
/// and the prompt that plants the code.
struct Attack {
    name: &'static str,
    setup: &'static str,
    base: &'static [(&'static str, &'static str)],
    plant: &'static str,
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "a script of the repository",
        setup: "sh setup.sh; echo ${#TOKEN} > ~/made",
        base: &[("setup.sh", "true")],
        plant: "[[write setup.sh|echo $TOKEN > leak]]",
    },
    Attack {
        name: "a script that npm runs",
        setup: "npm ci --offline --no-audit --no-fund && echo ${#TOKEN} > ~/made",
        base: &[
            ("package.json", r#"{"name": "shop", "version": "1.0.0"}"#),
            (
                "package-lock.json",
                r#"{"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "shop", "version": "1.0.0"}}}"#,
            ),
        ],
        plant: r#"[[write package.json|{"name": "shop", "version": "1.0.0", "scripts": {"preinstall": "echo $TOKEN > leak"}}]]"#,
    },
    Attack {
        name: "a setting of npm in the home",
        setup: "npm ci --offline --no-audit --no-fund && echo ${#TOKEN} > ~/made",
        base: &[
            ("package.json", r#"{"name": "shop", "version": "1.0.0", "scripts": {"preinstall": "true"}}"#),
            (
                "package-lock.json",
                r#"{"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "shop", "version": "1.0.0"}}}"#,
            ),
        ],
        plant: "[[run printf '#!/bin/sh\\necho $TOKEN > ~/leak\\nexec /bin/sh \"$@\"\\n' > ~/shell; chmod 755 ~/shell; \
                echo script-shell=$HOME/shell > ~/.npmrc]]",
    },
    Attack {
        name: "a file that a shell reads",
        setup: "[ ! -f ~/.bashrc ] || . ~/.bashrc; echo ${#TOKEN} > ~/made",
        base: &[],
        plant: "[[run echo 'echo $TOKEN > ~/leak' > ~/.bashrc]]",
    },
    Attack {
        name: "a program of the same name in the home",
        setup: "PATH=~/.local/bin:$PATH; uname > /dev/null; echo ${#TOKEN} > ~/made",
        base: &[],
        plant: "[[run mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho $TOKEN > ~/leak\\n' > ~/.local/bin/uname; \
                chmod 755 ~/.local/bin/uname]]",
    },
    Attack {
        name: "a hook and a filter of git",
        setup: "git config core.hooksPath .hooks; git checkout -q -b other; git checkout -q -; rm README.md; \
                git checkout -q README.md; echo ${#TOKEN} > ~/made",
        base: &[],
        plant: "[[run mkdir .hooks; printf '#!/bin/sh\\necho $TOKEN > ~/leak\\n' > .hooks/post-checkout; chmod 755 \
                .hooks/post-checkout; cp .hooks/post-checkout .git/hooks; echo 'README.md filter=evil' > .gitattributes; \
                git config --global filter.evil.smudge 'echo $TOKEN > ~/leak; cat']]",
    },
];

struct Fixture {
    site: Site,
    service: Service,
}

/// Makes a project whose setup command has the secret, alone or together with the agent.
fn fixture(setup: &str, base: &[(&str, &str)], is_shared: bool) -> Fixture {
    // If the turn of an idle agent fails, the service starts another agent and repeats the message.
    let (site, service) = shared("workers = 4\nwarm-agents = 0\n");
    for (file, text) in base {
        site.people_commit(file, text);
    }
    let uses = if is_shared { json!(["setup", "agent"]) } else { json!(["setup"]) };
    let body = json!({ "setup": setup, "secrets": { "TOKEN": VALUE }, "secretUses": { "TOKEN": uses } });
    service.configure(body);
    Fixture { site, service }
}

impl Fixture {
    /// Runs a job with one message; returns the job's path.
    fn done(&self, prompt: &str) -> String {
        let job = self.service.create(prompt);
        self.is_completed(&job);
        job
    }

    /// Runs a job that starts from a ref; returns the job's path.
    fn started_from(&self, reference: &str, prompt: &str) -> String {
        let job = self.service.create_with(json!({ "prompt": prompt, "ref": reference }));
        self.is_completed(&job);
        job
    }

    fn is_completed(&self, job: &str) {
        assert_eq!(self.service.settled(job)["status"], "completed", "{:#}", self.service.events(job));
    }

    /// Sends one more message to a job and waits until the job is completed.
    fn follow_up(&self, job: &str, prompt: &str) {
        self.service.send(job, prompt);
        self.is_completed(job);
    }

    /// Sends a message that leaves the workspace unusable.
    fn fail(&self, job: &str, prompt: &str) {
        self.service.send(job, prompt);
        assert_eq!(self.service.settled(job)["status"], "failed", "{:#}", self.service.events(job));
    }

    /// Returns whether a job's agent has taken the secret, and what the setup command recorded of it.
    fn taken(&self, job: &str) -> (bool, Option<String>) {
        let branch = self.branch(job);
        let stolen = ["stolen", "leak"].map(|file| self.site.file(&branch, file).unwrap_or_default());
        let is_stolen = stolen.iter().any(|text| text.contains(STOLEN) || text.contains(VALUE));
        (is_stolen, self.site.file(&branch, "seen"))
    }

    /// Returns the branch that a job pushed to last.
    fn branch(&self, job: &str) -> String {
        let events = self.service.events(job);
        let pushed = events.as_array().unwrap().iter().rfind(|event| event["type"] == "commit.pushed").unwrap();
        pushed["data"]["branch"].as_str().unwrap().to_owned()
    }
}

/// Returns the result of [`Fixture::taken`] if only the setup command had the secret.
fn safe(noted: &str) -> (bool, Option<String>) {
    (false, Some(format!("{noted}\n")))
}

#[test]
fn planted_code_never_runs_with_a_secret_that_the_agent_does_not_get() {
    let tried = |attack: &Attack, is_shared: bool| {
        let fixture = fixture(attack.setup, attack.base, is_shared);
        let job = fixture.done(&format!("{} [[run rm -f ~/made]] [[write a|1]]", attack.plant));
        fixture.fail(&job, "[[fail on purpose]]");
        fixture.follow_up(&job, TAKE);
        fixture.taken(&job)
    };
    std::thread::scope(|scope| {
        for attack in ATTACKS {
            scope.spawn(|| {
                assert_eq!(tried(attack, false), safe("18"), "{}: only the setup command had the secret", attack.name);
                let (is_stolen, _) = tried(attack, true);
                assert!(is_stolen, "{}: control: the attack works if the agent gets the secret too", attack.name);
            });
        }
    });
}

#[test]
fn an_agent_that_dies_gets_no_secret_from_its_next_attempt() {
    let fixture = fixture("sh setup.sh; echo ${#TOKEN} > ~/made", &[("setup.sh", "true")], false);
    let job = fixture.done("[[write setup.sh|echo $TOKEN > leak]] [[run rm -f ~/made]]");
    fixture.fail(&job, "[[die]]");
    fixture.follow_up(&job, TAKE);
    assert_eq!(fixture.taken(&job), safe("18"));
}

#[test]
fn an_agents_code_does_not_run_with_the_secret_after_people_commit_to_its_branch() {
    let fixture = fixture("sh setup.sh; echo ${#TOKEN} > ~/made", &[("setup.sh", "true")], false);
    let job = fixture.done("[[write setup.sh|echo $TOKEN > leak]] [[run rm -f ~/made]]");
    let (people, repository, branch) = (fixture.site.people(), fixture.site.repository(), fixture.branch(&job));
    let repository = repository.to_str().unwrap();
    git(&people, &["fetch", "--quiet", repository, &branch]);
    git(&people, &["checkout", "--quiet", "FETCH_HEAD"]);
    git(&people, &["commit", "--quiet", "--allow-empty", "--message", "Of people"]);
    git(&people, &["push", "--quiet", repository, &format!("HEAD:refs/heads/{branch}")]);
    fixture.follow_up(&job, TAKE);
    assert_eq!(fixture.taken(&job), safe("18"));
}

#[test]
fn code_on_the_branch_of_another_job_does_not_run_with_the_secret() {
    let fixture = fixture("sh setup.sh; echo ${#TOKEN} > ~/made", &[("setup.sh", "true")], false);
    let job = fixture.done("[[write setup.sh|echo $TOKEN > leak]]");
    let branch = fixture.branch(&job);
    let commit = git(&fixture.site.repository(), &["rev-parse", &branch]);
    for reference in [branch.as_str(), commit.trim()] {
        let job = fixture.started_from(reference, TAKE);
        assert_eq!(fixture.taken(&job), safe("18"), "{reference}");
    }
}

#[test]
fn code_that_people_have_merged_runs_with_the_secret() {
    let fixture = fixture("sh setup.sh", &[("setup.sh", "true")], false);
    let job = fixture.done("[[write setup.sh|echo merged ${#TOKEN} > ~/made]]");
    let (people, repository) = (fixture.site.people(), fixture.site.repository());
    let repository = repository.to_str().unwrap();
    git(&people, &["fetch", "--quiet", repository, &fixture.branch(&job)]);
    git(&people, &["merge", "--quiet", "FETCH_HEAD"]);
    git(&people, &["push", "--quiet", repository, "HEAD:main"]);
    fixture.fail(&job, "[[fail on purpose]]");
    fixture.follow_up(&job, TAKE);
    assert_eq!(fixture.taken(&job), safe("merged 18"));
    // Another job starts from the merged work.
    let other = fixture.done(TAKE);
    assert_eq!(fixture.taken(&other), safe("merged 18"));
}

#[test]
fn no_job_pushes_to_a_branch_of_accepted_commits() {
    let fixture = fixture("true", &[], false);
    fixture.service.configure(json!({ "ref": "develop" }));
    for (branch, from) in [("main", "HEAD"), ("develop", "main")] {
        let job = fixture.service.create_with(json!({ "prompt": "[[write a|1]]", "branch": branch, "ref": from }));
        assert_eq!(fixture.service.settled(&job)["status"], "failed", "{branch}");
        let runs = fixture.service.get(&format!("{job}/runs"));
        assert!(runs["runs"][0]["reason"]["text"].as_str().unwrap().contains("choose another"), "{branch}: {runs}");
    }
}

#[test]
fn a_job_stops_pushing_to_its_branch_when_the_project_names_it() {
    let fixture = fixture("true", &[], false);
    let job = fixture.done("[[write a|1]]");
    let branch = fixture.branch(&job);
    let before = git(&fixture.site.repository(), &["rev-parse", &branch]);
    fixture.service.configure(json!({ "pullRequest": { "base": branch } }));
    fixture.fail(&job, "[[append a|2]]");
    let runs = fixture.service.get(&format!("{job}/runs")).to_string();
    assert!(runs.contains("jobs do not push to those"), "{runs}");
    assert_eq!(git(&fixture.site.repository(), &["rev-parse", &branch]), before);
}

/// A stand-in for `npm ci` with a private package, which cannot be installed without the token.
const INSTALL: &str = "[ -n \"$TOKEN\" ] || exit 1; mkdir node_modules; \
                       while read -r name; do echo installed > node_modules/$name; done < modules.lock; sleep 97533 > /dev/null 2>&1 &";

#[test]
fn packages_that_need_a_token_are_installed_after_the_workspace_was_rebuilt() {
    let base = [(".gitignore", "node_modules\n"), ("modules.lock", "private\n")];
    let fixture = fixture(INSTALL, &base, false);
    let job = fixture.done("[[run cat node_modules/private > first]] [[append modules.lock|another]] [[write a|1]]");
    assert!(!is_running(&["sleep", "97533"]), "no process that had the token is left");
    fixture.fail(&job, "[[fail on purpose]]");
    fixture
        .follow_up(&job, "[[run cat node_modules/private > second; git status --porcelain > status]] [[append a|2]]");
    let branch = fixture.branch(&job);
    let file = |name: &str| fixture.site.file(&branch, name).unwrap_or_default();
    assert_eq!((file("first").as_str(), file("second").as_str()), ("installed\n", "installed\n"));
    assert_eq!(file("modules.lock"), "private\nanother\n", "the agent's work is there as well");
    assert_eq!((file("a").as_str(), file("status").as_str()), ("1\n2\n", "?? second\n?? status\n"));
    assert_eq!(fixture.site.file(&branch, "node_modules/private"), None);
}
