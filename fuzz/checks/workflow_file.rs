//! What holds for any bytes that somebody may pass off as a workflow file.

use interlock_workflow::{Finding, Severity, dot, file, mermaid, svg};

/// More findings than a person reads are not collected. Those of the workflow come on top of those
/// of the text, and each is about something that the text holds.
const MOST_FINDINGS: usize = 100_000;

/// Reading never panics. What is refused says why, at a place inside the file; what is accepted
/// can be drawn.
pub(crate) fn check(bytes: &[u8]) {
    match file::read(bytes) {
        Ok(read) => {
            check_findings(bytes, &read.warnings);
            let harmless = |finding: &Finding| finding.severity() == Severity::Warning;
            assert!(read.warnings.iter().all(harmless));
            if let Some(workflow) = &read.workflow {
                assert!(mermaid(workflow, None).contains("stateDiagram-v2"));
                assert!(dot(workflow, None).starts_with("digraph"));
                if workflow.states().len() <= 8 {
                    let drawn = svg(workflow, Some(workflow.initial().state));
                    assert!(drawn.is_err() || drawn.is_ok_and(|drawn| drawn.starts_with("<svg ")));
                }
                let definition = workflow.definition();
                let written = file::write(&definition).expect("what was read can be written");
                let again = file::read_definition(written.as_bytes());
                assert_eq!(again.as_ref(), Ok(&definition), "{written}");
            }
        }
        Err(invalid) => {
            assert!(invalid.errors().next().is_some());
            check_findings(bytes, &invalid.findings);
        }
    }
}

fn check_findings(bytes: &[u8], findings: &[Finding]) {
    assert!(findings.len() <= MOST_FINDINGS);
    for finding in findings {
        assert!(!finding.to_string().is_empty());
        if let Some(span) = finding.span {
            assert!(
                span.start <= span.end && span.end <= bytes.len(),
                "{finding}: {span:?}"
            );
            assert!(span.line >= 1 && span.column >= 1, "{finding}: {span:?}");
            if let Ok(text) = std::str::from_utf8(bytes) {
                // Whoever shows the place cuts the text there.
                assert!(
                    text.get(span.start..span.end).is_some(),
                    "{finding}: {span:?}"
                );
            }
        }
    }
}
