//! Clients that come back for the rest of a stream.

use super::*;

#[tokio::test]
async fn a_replay_begins_in_the_middle_and_goes_on_with_what_is_new() {
    let stream = replayable();
    let mut body = open(&stream, options());
    for message in ["a", "b", "c"] {
        say(&stream, message);
    }
    assert_eq!(messages(&mut body).len(), 3);
    drop(body);
    let mut body = open(&stream, after(1));
    check(&mut body, &[("2a-2", "b"), ("2a-3", "c")]);
    say(&stream, "d");
    check(&mut body, &[("2a-4", "d")]);
}

#[tokio::test]
async fn an_ended_stream_is_replayed_too() {
    let stream = replayable();
    say(&stream, "a");
    stream.answer(b"z".into());
    for _ in 0..2 {
        let mut body = open(&stream, after(1));
        check(&mut body, &[("2a-2", "z")]);
        assert_eq!(read(&mut body), Now::Over);
    }
    let mut body = open(
        &stream,
        EventStreamOptions {
            prime: true,
            ..after(2)
        },
    );
    assert_eq!(read(&mut body), Now::Over);
}

#[tokio::test]
async fn ids_name_their_own_stream_and_lead_to_no_other() {
    let one = Stream::new(1, rules(Retention::Replayable));
    let two = Stream::new(0xabc, rules(Retention::Replayable));
    say(&one, "of one");
    say(&two, "of two");
    for stream in [one, two] {
        let ids = messages(&mut open(&stream, primed()));
        assert_eq!(parse_event_id(&ids[0].0), Some((stream.number(), 1)));
    }
}

#[tokio::test]
async fn a_primed_client_can_resume_before_anything_was_said() {
    let stream = replayable();
    let mut body = open(&stream, primed());
    assert_eq!(
        read(&mut body),
        Now::Text("id: 2a-0\nretry: 700\ndata: \n\n".into())
    );
    drop(body);
    say(&stream, "a");
    check(&mut open(&stream, after(0)), &[("2a-1", "a")]);
}

#[tokio::test]
async fn priming_a_resumed_client_does_not_turn_it_back() {
    let stream = replayable();
    for message in ["a", "b", "c"] {
        say(&stream, message);
    }
    let mut body = open(
        &stream,
        EventStreamOptions {
            prime: true,
            ..after(2)
        },
    );
    assert_eq!(
        read(&mut body),
        Now::Text("id: 2a-2\nretry: 700\ndata: \n\nevent: message\nid: 2a-3\ndata: c\n\n".into())
    );
}

#[tokio::test]
async fn a_stream_without_ids_is_not_primed() {
    assert_eq!(read(&mut open(&once(), primed())), Now::Nothing);
}

#[tokio::test]
async fn a_disconnected_reader_is_told_when_to_come_back() {
    let stream = replayable();
    let mut body = open(&stream, primed());
    assert!(matches!(read(&mut body), Now::Text(_)));
    stream.disconnect();
    assert!(!stream.has_reader());
    assert_eq!(read(&mut body), Now::Text("retry: 700\n\n".into()));
    assert_eq!(read(&mut body), Now::Over);
    assert!(!stream.is_ended());
}

#[tokio::test]
async fn disconnecting_again_and_again_loses_nothing_and_repeats_nothing() {
    let stream = replayable();
    let mut heard = Vec::new();
    let mut last = 0;
    for round in 0..20 {
        let mut body = open(
            &stream,
            EventStreamOptions {
                prime: round % 2 == 0,
                ..after(last)
            },
        );
        say(&stream, &format!("{round} while connected"));
        stream.disconnect();
        say(&stream, &format!("{round} while leaving"));
        heard.extend(messages(&mut body));
        assert_eq!(read(&mut body), Now::Over);
        drop(body);
        say(&stream, &format!("{round} while away"));
        let (_, seq) = parse_event_id(&heard.last().unwrap().0).unwrap();
        last = seq;
    }
    stream.answer(b"z".into());
    heard.extend(messages(&mut open(&stream, after(last))));
    let numbers: Vec<_> = heard
        .iter()
        .map(|(id, _)| parse_event_id(id).unwrap().1)
        .collect();
    assert_eq!(numbers, (1..=61).collect::<Vec<_>>());
    assert_eq!(heard[60].1, "z");
}

#[tokio::test]
async fn a_reader_after_the_last_sent_gets_only_what_is_new() {
    let stream = replayable();
    say(&stream, "a");
    assert_eq!(messages(&mut open(&stream, options())).len(), 1);
    say(&stream, "b");
    let mut body = open(&stream, after(stream.last_sent()));
    check(&mut body, &[("2a-2", "b")]);
}
