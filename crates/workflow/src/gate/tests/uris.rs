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

/// What needs no instance is served without one on 2026-07-28, and by the instance of a session
/// before: both ask the same.
#[test]
fn what_needs_no_instance_is_what_every_instance_lets_through() {
    let flow = |everything: bool| {
        let flow = Workflow::builder("both")
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| {
                s.resource("order://{id}{?q}", |r| r.success(end("c")))
                    .resource("file:///{+path}", |r| r.success("b"))
                    .resource("note://one", |r| r.success("b"))
            })
            .always_resource("order://free")
            .always_resource("file:///public/{name}")
            .always_resource("note://{any}");
        match everything {
            true => flow.always_everything().build().unwrap(),
            false => flow.build().unwrap(),
        }
    };
    for (flow, everything) in [(flow(false), false), (flow(true), true)] {
        let everywhere = flow.states().flat_map(|state| {
            [false, true].map(|finished| Position {
                finished,
                ..state.into()
            })
        });
        let everywhere: Vec<_> = everywhere.collect();
        let is_free = |uri: &str| {
            let admitted = |at: &Position| flow.admit(*at, Kind::Resource, uri);
            let mut all = everywhere.iter();
            all.all(|at| matches!(admitted(at), Ok(Pass::Always)))
        };
        let mut free = Vec::new();
        for uri in [
            "order://1/2",
            "order://1#x",
            "ORDER://1/2",
            "order://free",
            "order://1",
            "file:///public/a",
            "note://one",
            "note://two",
            "other://x",
        ] {
            assert_eq!(flow.is_always(Kind::Resource, uri), is_free(uri), "{uri}");
            free.extend(is_free(uri).then_some(uri));
        }
        let named = ["order://free", "note://two"];
        let (other, named) = (["other://x"].iter().filter(|_| everything), named.iter());
        assert!(free.iter().eq(named.chain(other)), "{free:?}");
    }
}

#[test]
fn a_uri_is_the_same_however_it_is_written() {
    let flow = Workflow::builder("web")
        .state("a", |s| {
            s.initial()
                .resource("http://example.com", |r| r.success("a"))
                .resource("HTTP://Example.com/orders/{id}", |r| r.success("a"))
                .resource("note://Rules/%2f", |r| r.success(end("a")))
        })
        .build()
        .unwrap();
    let admit = |uri: &str| match flow.admit(flow.initial(), Kind::Resource, uri) {
        Ok(Pass::Bound(binding)) => Some(binding.artifact().name.as_str()),
        Ok(Pass::Always) | Err(_) => None,
    };
    for uri in [
        "http://example.com",
        "http://example.com/",
        "Http://EXAMPLE.com",
    ] {
        assert_eq!(admit(uri), Some("http://example.com"), "{uri}");
    }
    let template = Some("HTTP://Example.com/orders/{id}");
    assert_eq!(admit("http://EXAMPLE.com/orders/A"), template);
    assert_eq!(admit("NOTE://Rules/%2F"), Some("note://Rules/%2f"));
    for other in [
        "note://rules/%2f",
        "http://example.com/x/..",
        "note://Rules//",
    ] {
        assert_eq!(admit(other), None, "{other}");
    }
}
