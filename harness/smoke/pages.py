"""A smoke run as JUnit XML, for CI systems, and as Markdown, for a job's page."""

from xml.etree import ElementTree

from harness.smoke.run import Result


def junit(results: list[Result]) -> str:
    """One test case a step; a crash is an error, a complaint a failure."""
    failed = [r for r in results if not r.passed]
    suite = ElementTree.Element(
        "testsuite",
        name="kvtorture smoke",
        tests=str(len(results)),
        errors=str(sum(r.crashed for r in failed)),
        failures=str(sum(not r.crashed for r in failed)),
        time=f"{sum(r.seconds for r in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname="smoke",
            name=result.step.name,
            time=f"{result.seconds:.3f}",
        )
        if not result.passed:
            kind = "error" if result.crashed else "failure"
            found = ElementTree.SubElement(case, kind, message="; ".join(result.complaints))
            found.text = _printable(result.said)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown(results: list[Result]) -> str:
    """A table of the steps, and what is wrong."""
    title = "passed" if all(r.passed for r in results) else "failed"
    lines = [
        f"## kvtorture smoke: {title}",
        "",
        "| step | result | seconds |",
        "| --- | --- | --- |",
    ]
    for result in results:
        word = "pass" if result.passed else "; ".join(result.complaints).replace("|", "\\|")
        lines.append(f"| {result.step.name} | {word} | {result.seconds:.1f} |")
    return "\n".join(lines) + "\n"


def _printable(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(c for c in text if c in "\t\n" or 0x20 <= ord(c) <= 0xD7FF)
