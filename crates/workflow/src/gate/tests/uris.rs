//! Which resource a URI means.

use super::*;

#[test]
fn a_uri_is_admitted_by_itself_or_by_the_template_it_fits() {
    let flow = Workflow::builder("templates")
        .state("a", |s| {
            s.initial()
                .resource("order://{id}", |r| r.success("b"))
                .resource("greeting://alice", |r| r.success(end("c")))
        })
        .state("b", |s| {
            s.resource("order://{id}/items", |r| r.success("a"))
        })
        .build()
        .unwrap();
    let admit = |state, uri| match flow.admit(at(&flow, state), Kind::Resource, uri) {
        Ok(Pass::Bound(binding)) => Some(binding.artifact().name.as_str()),
        Ok(Pass::Always) => panic!("{uri}"),
        Err(_) => None,
    };
    assert_eq!(admit("a", "order://17"), Some("order://{id}"));
    assert_eq!(admit("a", "order://17/items"), None);
    assert_eq!(admit("b", "order://17/items"), Some("order://{id}/items"));
    assert_eq!(admit("a", "greeting://alice"), Some("greeting://alice"));
    assert_eq!(admit("a", "greeting://bob"), None);
    assert!(flow.is_bound(Kind::Resource, "order://99"));
    let refused = flow.admit(at(&flow, "a"), Kind::Resource, "order://17/items");
    assert_eq!(refused.unwrap_err().path().unwrap().len(), 1);
}

/// Whoever serves a resource may see more in a URI than the gate does.
#[test]
fn a_uri_that_might_be_a_bound_one_is_not_let_through_as_something_else() {
    let flow = Workflow::builder("open")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| {
            s.resource("order://{id}{?q}", |r| r.success(end("c")))
        })
        .always_everything()
        .build()
        .unwrap();
    let admit = |uri: &str| flow.admit(flow.initial(), Kind::Resource, uri).is_ok();
    let long = format!("order://1?q={}", "x".repeat(3_000));
    for uri in ["order://1", "order://", "order://1/2", "order://1#x", &long] {
        assert!(!admit(uri), "{uri}");
    }
    assert!(admit("note://free"));
}

#[test]
fn of_several_meanings_of_a_uri_the_callable_one_counts() {
    let flow = Workflow::builder("names")
        .state("a", |s| {
            s.initial()
                .resource("greeting://{name}", |r| r.success("b"))
                .resource("file:///{+path}", |r| r.success("a"))
        })
        .state("b", |s| {
            s.resource("greeting://alice", |r| r.success(end("c")))
        })
        .always_resource("file:///public/{name}")
        .build()
        .unwrap();
    let admit = |state, uri| flow.admit(at(&flow, state), Kind::Resource, uri);
    assert!(matches!(admit("a", "greeting://alice"), Ok(Pass::Bound(_))));
    assert!(matches!(admit("b", "greeting://alice"), Ok(Pass::Bound(_))));
    assert!(admit("b", "greeting://bob").is_err());
    assert!(matches!(admit("b", "file:///public/a"), Ok(Pass::Always)));
    assert!(admit("b", "file:///secret").is_err());
}
