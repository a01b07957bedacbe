//! Tests of the removal of repositories.

use std::path::PathBuf;
use std::time::Duration;

use journeyman_core::ports::{LfsError, PullStore as _};
use journeyman_core::project::Project;

use super::*;

impl Setup {
    fn path(&self) -> PathBuf {
        self.hosts.local().path("shop")
    }

    fn aside(&self) -> PathBuf {
        self.dir.path().join("repos/.shop.removed")
    }

    /// Stores a project with the repository.
    async fn stored(&self, id: &str) -> Project {
        let project = Project::new(id.parse().unwrap(), "local:shop", Timestamp::default());
        self.store.create_project(project, [].into()).await.unwrap()
    }

    fn removed(&self) -> Vec<String> {
        self.objects.removed()
    }
}

#[tokio::test]
async fn a_repository_is_removed_with_its_pull_requests_and_objects() {
    let setup = setup().await;
    setup.checkout("main").await;
    setup.commit("a", "a", "text\n").await;
    setup.open(&pull("a")).await.unwrap();
    for _ in 0..2 {
        setup.hosts.remove("shop").await.unwrap();
        assert!(!setup.path().exists() && !setup.aside().exists());
        assert!(setup.store.pulls("shop".to_owned()).await.unwrap().is_empty());
        assert_eq!(setup.removed(), ["shop"]);
    }
    setup.hosts.prepare(&setup.project).await.unwrap();
    assert_eq!(setup.hosts.local().branches(&setup.project).await.unwrap(), [] as [String; 0], "a new one is empty");
}

#[tokio::test]
async fn a_repository_that_another_project_uses_stays() {
    let setup = setup().await;
    setup.stored("other").await;
    setup.hosts.remove("shop").await.unwrap();
    assert!(setup.path().join("HEAD").exists());
    setup.store.delete_project("other".parse().unwrap()).await.unwrap();
    setup.hosts.remove("shop").await.unwrap();
    assert!(!setup.path().exists());
}

#[tokio::test]
async fn a_repository_with_which_a_project_is_being_created_stays() {
    let setup = setup().await;
    setup.hosts.prepare(&setup.project).await.unwrap();
    let error = setup.hosts.remove("shop").await.unwrap_err();
    assert!(error.to_string().contains("is being created"), "{error}");
    assert!(setup.path().join("HEAD").exists() && setup.removed().is_empty());
    setup.world.advance(Duration::from_secs(600));
    setup.hosts.remove("shop").await.unwrap();
    assert!(!setup.path().exists(), "the project was not created");
}

#[tokio::test]
async fn a_removal_that_was_interrupted_is_finished() {
    let setup = setup().await;
    setup.objects.fail_removals(Some(LfsError::Failed("the bucket is away".to_owned())));
    let error = setup.hosts.remove("shop").await.unwrap_err();
    assert!(error.to_string().contains("the bucket is away"), "{error}");
    assert!(!setup.path().exists() && setup.aside().exists());
    let refused = setup.hosts.prepare(&setup.project).await.unwrap_err();
    assert!(refused.to_string().contains("the bucket is away"), "{refused}");
    setup.objects.fail_removals(None);
    setup.hosts.local().finish_removals().await.unwrap();
    assert!(!setup.aside().exists());
    assert_eq!(setup.removed(), ["shop"]);
    // A process that dies before it has read the projects leaves the folder as well.
    setup.hosts.prepare(&setup.project).await.unwrap();
    std::fs::rename(setup.path(), setup.aside()).unwrap();
    setup.stored("other").await;
    setup.hosts.local().finish_removals().await.unwrap();
    assert!(setup.path().join("HEAD").exists() && !setup.aside().exists(), "it is moved back");
    std::fs::rename(setup.path(), setup.aside()).unwrap();
    setup.hosts.prepare(&setup.project).await.unwrap();
    assert!(setup.path().join("HEAD").exists() && !setup.aside().exists(), "it is moved back before it is used");
}

#[tokio::test]
async fn only_one_process_removes_a_repository() {
    let setup = setup().await;
    std::fs::rename(setup.path(), setup.aside()).unwrap();
    let held = std::fs::File::open(setup.aside()).unwrap();
    held.lock().unwrap();
    let error = setup.hosts.remove("shop").await.unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    assert!(setup.hosts.prepare(&setup.project).await.is_err(), "no other repository gets the name meanwhile");
    // A program that starts just now may have a copy of the descriptor.
    held.unlock().unwrap();
    setup.hosts.remove("shop").await.unwrap();
    assert!(!setup.aside().exists());
}
