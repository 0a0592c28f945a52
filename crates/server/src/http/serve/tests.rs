//! Real connections over loopback.

use super::*;
use crate::http::stream::{BodyOptions, Retention, Stream, StreamRules};
use axum::routing::get;
use std::sync::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Notify, oneshot},
    task::JoinHandle,
};

const SHORT: Duration = Duration::from_millis(50);
/// More than the system keeps for a client that does not read.
const LONG: usize = 64 * 1024 * 1024;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<io::Result<()>>,
}

async fn start(router: Router, options: ServeOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(serve(listener, Site::new(router), options, async {
        let _ = stopped.await;
    }));
    Running {
        address,
        stop,
        served,
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes and reads until the server closes the connection.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut client = self.connect().await;
        client.write_all(bytes).await.unwrap();
        rest(&mut client).await
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }
}

/// Everything up to the end of the connection.
async fn rest(client: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // Closing with unread bytes resets the connection, which is an end too.
    let _ = client.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads until the text has come.
async fn read_until(client: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    loop {
        let so_far = String::from_utf8_lossy(&all).into_owned();
        if so_far.contains(text) {
            return so_far;
        }
        let read = client.read_buf(&mut all).await.unwrap();
        assert_ne!(read, 0, "the connection ended after {so_far:?}");
    }
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn short_header() -> ServeOptions {
    ServeOptions {
        header_timeout: SHORT,
        ..ServeOptions::default()
    }
}

#[tokio::test]
async fn a_handler_knows_the_address_of_its_client() {
    let router = Router::new().route(
        "/",
        get(|ConnectInfo(remote): ConnectInfo<SocketAddr>| async move { format!("<{remote}>") }),
    );
    let server = start(router, ServeOptions::default()).await;
    let mut client = server.connect().await;
    client.write_all(LAST_REQUEST).await.unwrap();
    let own = client.local_addr().unwrap();
    assert!(rest(&mut client).await.ends_with(&format!("<{own}>")));
    server.stop().await;
}

#[tokio::test]
async fn a_connection_takes_one_request_after_another() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.write_all(REQUEST).await.unwrap();
        read_until(&mut client, "hello").await;
    }
    server.stop().await;
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_is_cut_off() {
    let server = start(hello(), short_header()).await;
    let beginnings: [&[u8]; 6] = [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ",
        // The beginning of what begins HTTP/2.
        b"PRI * HT",
        PREFACE,
        // A header block that is not finished.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x03\x01\x01\0\0\0\x01\x82\x86\x84",
    ];
    for beginning in beginnings {
        assert!(!server.exchange(beginning).await.contains("200 OK"));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_again_is_cut_off() {
    let server = start(hello(), short_header()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "hello").await;
    assert_eq!(rest(&mut client).await, "");
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "hello").await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    assert_eq!(rest(&mut client).await, "");
    server.stop().await;
}

#[tokio::test]
async fn who_may_take_for_ever_is_never_cut_off() {
    let options = ServeOptions {
        header_timeout: Duration::MAX,
        idle_timeout: Duration::MAX,
        ..ServeOptions::default()
    };
    let server = start(hello(), options).await;
    let mut client = server.connect().await;
    for _ in 0..2 {
        client.write_all(REQUEST).await.unwrap();
        read_until(&mut client, "hello").await;
    }
    let mut http2 = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut http2).await, b"hello");
    drop(http2);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_answer_is_no_slow_question() {
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..short_header()
    };
    let answers = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&answers);
    let router = Router::new().route(
        "/",
        get(|| async move {
            waiting.acquire().await.unwrap().forget();
            "slow"
        }),
    );
    let server = start(router, options).await;
    let mut slow = server.connect().await;
    slow.write_all(&[REQUEST, LAST_REQUEST].concat())
        .await
        .unwrap();
    // Connections that came later are closed for being silent: the time is over.
    for _ in 0..4 {
        server.exchange(b"").await;
    }
    answers.add_permits(2);
    assert_eq!(rest(&mut slow).await.matches("slow").count(), 2);
    server.stop().await;
}

/// How much of a long answer comes to a client that takes nothing until the others are gone for
/// their silence.
async fn late_reader(options: ServeOptions) -> usize {
    let long = || async { vec![b'x'; LONG] };
    let server = start(Router::new().route("/", get(long)), options).await;
    let mut late = server.connect().await;
    late.write_all(LAST_REQUEST).await.unwrap();
    for _ in 0..4 {
        server.exchange(b"").await;
    }
    let taken = rest(&mut late).await.len();
    server.stop().await;
    taken
}

#[tokio::test]
async fn a_client_that_takes_its_answer_late_is_not_slow_to_ask() {
    assert!(late_reader(short_header()).await > LONG);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..short_header()
    };
    assert!(late_reader(options).await < LONG);
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut request = b"GET / HTTP/1.1\r\nhost: x\r\nx-large: ".to_vec();
    request.resize(HEADERS as usize + 1, b'x');
    assert!(server.exchange(&request).await.contains(" 431 "));
    server.stop().await;
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

const DATA: u8 = 0;
const HEADER_BLOCK: u8 = 1;
const SETTINGS: u8 = 4;

/// Opens HTTP/2 and asks for `/`. The header block is `:method: GET`, `:scheme: http`,
/// `:path: /` of the static table and `:authority: x`.
async fn ask_by_http2(server: &Running) -> TcpStream {
    let mut client = server.connect().await;
    let mut opening = PREFACE.to_vec();
    opening.extend(frame(SETTINGS, 0, 0, &[]));
    opening.extend(frame(HEADER_BLOCK, 5, 1, b"\x82\x86\x84\x41\x01x"));
    client.write_all(&opening).await.unwrap();
    client
}

async fn read_frame(client: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    client.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    client.read_exact(&mut payload).await?;
    Ok((head[3], payload))
}

async fn data_by_http2(client: &mut TcpStream) -> Vec<u8> {
    loop {
        let (kind, payload) = read_frame(client).await.unwrap();
        if kind == DATA && !payload.is_empty() {
            return payload;
        }
    }
}

#[tokio::test]
async fn http2_is_spoken_on_the_same_port() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut client = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut client).await, b"hello");
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn http2_states_its_limits() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut client = ask_by_http2(&server).await;
    let (kind, settings) = read_frame(&mut client).await.unwrap();
    assert_eq!(kind, SETTINGS);
    let states = |name: u8, value: u32| {
        let value = value.to_be_bytes();
        settings
            .chunks(6)
            .any(|setting| setting[..2] == [0, name] && setting[2..] == value)
    };
    assert!(states(3, CONCURRENT), "{settings:?}");
    assert!(states(6, HEADERS), "{settings:?}");
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed() {
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..short_header()
    };
    let server = start(hello(), options).await;
    let mut client = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut client).await, b"hello");
    while read_frame(&mut client).await.is_ok() {}
    server.stop().await;
}

#[tokio::test]
async fn a_stop_lets_a_running_response_finish_and_refuses_new_connections() {
    let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, finishes) = (Arc::clone(&begun), Arc::clone(&finish));
    let router = Router::new().route(
        "/",
        get(|| async move {
            begins.notify_one();
            finishes.notified().await;
            "finished"
        }),
    );
    let server = start(router, short_header()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    begun.notified().await;
    server.stop.send(()).unwrap();
    while TcpStream::connect(server.address).await.is_ok() {}
    // A client without a running request would have been dropped by now.
    let clock = start(hello(), short_header()).await;
    for _ in 0..3 {
        clock.exchange(b"").await;
    }
    clock.stop().await;
    assert!(!server.served.is_finished());
    finish.notify_one();
    assert!(rest(&mut client).await.ends_with("finished"));
    server.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_idle_connections() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut clients = Vec::new();
    for bytes in [&b""[..], REQUEST, PREFACE] {
        let mut client = server.connect().await;
        client.write_all(bytes).await.unwrap();
        clients.push(client);
    }
    let mut http2 = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut http2).await, b"hello");
    drop(http2);
    read_until(&mut clients[1], "hello").await;
    drop(clients.pop());
    server.stop().await;
    for mut client in clients {
        assert_eq!(rest(&mut client).await, "");
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_client_that_does_not_take_leave() {
    let options = ServeOptions {
        drain: Duration::from_secs(3600),
        ..short_header()
    };
    let server = start(hello(), options).await;
    let mut client = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut client).await, b"hello");
    server.stop().await;
    while read_frame(&mut client).await.is_ok() {}
}

#[tokio::test]
async fn what_has_not_finished_when_the_time_is_over_is_dropped() {
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, drops) = (Arc::clone(&begun), Arc::clone(&dropped));
    let router = Router::new().route(
        "/",
        get(|| async move {
            let _guard = OnDrop(drops);
            begins.notify_one();
            std::future::pending::<()>().await;
        }),
    );
    let options = ServeOptions {
        drain: SHORT,
        ..ServeOptions::default()
    };
    let server = start(router.clone(), options.clone()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    begun.notified().await;
    server.stop().await;
    assert_eq!(rest(&mut client).await, "");
    dropped.notified().await;

    let server = start(router, options).await;
    let mut client = ask_by_http2(&server).await;
    begun.notified().await;
    server.stop().await;
    while read_frame(&mut client).await.is_ok() {}
    dropped.notified().await;
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    const MANY: usize = 100;
    let together = Arc::new(tokio::sync::Barrier::new(MANY));
    let router = Router::new().route(
        "/",
        get(|| async move {
            together.wait().await;
            "together"
        }),
    );
    let server = start(router, ServeOptions::default()).await;
    let exchanges = (0..MANY).map(|_| server.exchange(LAST_REQUEST));
    for answer in futures_util::future::join_all(exchanges).await {
        assert!(answer.ends_with("together"), "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    #[derive(Default)]
    struct Crowd {
        now: usize,
        most: usize,
    }
    let crowd = Arc::new(Mutex::new(Crowd::default()));
    let counted = Arc::clone(&crowd);
    let router = Router::new().route(
        "/",
        get(|| async move {
            {
                let mut crowd = counted.lock().unwrap();
                crowd.now += 1;
                crowd.most = crowd.most.max(crowd.now);
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            counted.lock().unwrap().now -= 1;
            "served"
        }),
    );
    let options = ServeOptions {
        max_connections: 2,
        ..ServeOptions::default()
    };
    let server = start(router, options).await;
    let exchanges = (0..20).map(|_| server.exchange(LAST_REQUEST));
    for answer in futures_util::future::join_all(exchanges).await {
        assert!(answer.ends_with("served"), "{answer}");
    }
    assert_eq!(crowd.lock().unwrap().most, 2);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_is_heard_while_every_place_is_taken() {
    let options = ServeOptions {
        max_connections: 1,
        ..ServeOptions::default()
    };
    let server = start(hello(), options).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "hello").await;
    let _waiting = server.connect().await;
    server.stop().await;
}

#[tokio::test]
async fn a_panicking_handler_costs_its_own_connection_only() {
    let panics = || async {
        if true {
            panic!("on purpose");
        }
    };
    let server = start(
        hello().route("/panic", get(panics)),
        ServeOptions::default(),
    )
    .await;
    let panicked = server.exchange(b"GET /panic HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(panicked.await, "");
    assert!(server.exchange(LAST_REQUEST).await.ends_with("hello"));
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_is_noticed_by_its_stream() {
    struct Goes(Arc<Notify>);
    impl Drop for Goes {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let stream = Stream::new(
        1,
        StreamRules {
            retention: Retention::Once,
            retry: SHORT,
            keep_bytes: 1000,
            keep_events: 10,
        },
    );
    stream.say(b"{}".into());
    let gone = Arc::new(Notify::new());
    let (same, goes) = (Arc::clone(&stream), Arc::clone(&gone));
    let router = Router::new().route(
        "/",
        get(move || async move {
            Body::new(same.body(BodyOptions {
                guard: Some(Box::new(Goes(goes))),
                ..BodyOptions::default()
            }))
        }),
    );
    let server = start(router, ServeOptions::default()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "data: {}\n\n").await;
    assert!(stream.has_reader());
    drop(client);
    gone.notified().await;
    assert!(!stream.has_reader());
    server.stop().await;
}

/// Fails with these errors, then gives out connections.
struct Failing {
    errors: Mutex<Vec<io::Error>>,
    listener: TcpListener,
}

impl Accept for Failing {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let error = self.errors.lock().unwrap().pop();
        match error {
            Some(error) => Err(error),
            None => self.listener.accept().await,
        }
    }
}

async fn failing(errors: Vec<io::Error>) -> Failing {
    Failing {
        errors: Mutex::new(errors),
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
    }
}

#[tokio::test]
async fn a_failed_accept_is_tried_again() {
    const EMFILE: i32 = 24;
    let listener = failing(vec![
        io::Error::from_raw_os_error(EMFILE),
        io::ErrorKind::ConnectionAborted.into(),
        io::Error::from_raw_os_error(EMFILE),
    ])
    .await;
    let mut client = TcpStream::connect(listener.listener.local_addr().unwrap())
        .await
        .unwrap();
    client.write_all(LAST_REQUEST).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = serve_from(
        listener,
        Site::new(hello()),
        ServeOptions::default(),
        async {
            let _ = stopped.await;
        },
    );
    let asking = async {
        let answer = rest(&mut client).await;
        stop.send(()).unwrap();
        answer
    };
    let (served, answer) = tokio::join!(serving, asking);
    served.unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn what_is_no_listener_is_given_up() {
    let listener = failing(vec![io::ErrorKind::InvalidInput.into()]).await;
    let served = serve_from(
        listener,
        Site::new(hello()),
        ServeOptions::default(),
        std::future::pending(),
    );
    assert_eq!(
        served.await.unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
}

#[test]
fn pauses_grow_to_a_second_and_no_longer() {
    let pauses: Vec<_> = [0, 1, 2, 6, 7, 40, u32::MAX].map(pause).into();
    let milliseconds: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
    assert_eq!(milliseconds, [10, 20, 40, 640, 1000, 1000, 1000]);
}
