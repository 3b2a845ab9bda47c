"""What can be wrong with a file before its names are looked at, substitution, and included files."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.configfile import ConfigFileError, load_config
from embedbroker.configfile import _document as documents
from tests.embedbroker.configfile.config_files import ACCEPTOR, QUIET, document, load, load_text, refused, refused_text

NAMED = document(ACCEPTOR + QUIET + "<name>Käfer</name>")

# -- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "head"),
    [
        ("utf-8", ""),
        ("utf-8", "<?xml version='1.0'?>"),
        ("utf-8", "<?xml version='1.0' encoding='UTF-8'?>"),
        ("utf-8-sig", "<?xml version='1.0' encoding='utf-8'?>"),
        ("iso-8859-1", "<?xml version='1.0' encoding='ISO-8859-1'?>"),
        ("cp1252", '<?xml version="1.0" encoding="windows-1252" standalone="yes"?>'),
        ("utf-16", "<?xml version='1.0' encoding='UTF-16'?>"),
        ("utf-16", ""),
    ],
)
def test_the_encoding_is_that_of_the_mark_or_the_declaration(encoding: str, head: str, tmp_path: Path) -> None:
    assert load_text(tmp_path, (head + NAMED).encode(encoding)).config.name == "Käfer"


@pytest.mark.parametrize("encoding", ["klingon-8", "hex", "rot13", ""])
def test_an_unknown_encoding_is_named(encoding: str, tmp_path: Path) -> None:
    text = f"<?xml version='1.0' encoding='{encoding}'?>{document('')}"
    assert refused_text(tmp_path, text.encode()) == [f"the encoding {encoding!r} is unknown; use UTF-8"]


def test_text_in_another_encoding_than_declared_is_refused(tmp_path: Path) -> None:
    (problem,) = refused_text(tmp_path, NAMED.encode("iso-8859-1"))
    assert problem.startswith("the text is not utf-8: ")


# -- XML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("name=value", "line 1, column 5: not well-formed (invalid token)"),
        ("<configuration>\n  <core></configuration>", "line 2, column 11: mismatched tag"),
        (document("<name>&broker;</name>"), "line 1, column 118: undefined entity"),
        ("<configuration><web:app/></configuration>", "line 1, column 16: unbound prefix"),
        ("<configuration/><configuration/>", "line 1, column 17: junk after document element"),
        (document("<name>\x01</name>"), "line 1, column 118: not well-formed (invalid token)"),
    ],
)
def test_what_is_no_xml_is_refused_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    assert refused_text(tmp_path, text) == [problem]


ENTITY = "<!ENTITY a 'aaaaaaaaaa'>"
BOMB = "".join(f"<!ENTITY {name} '{f'&{below};' * 10}'>" for below, name in zip("abcdefg", "bcdefgh", strict=True))


@pytest.mark.parametrize(
    "document_type",
    [
        "<!DOCTYPE configuration>",
        "<!DOCTYPE configuration SYSTEM 'file:///etc/passwd'>",
        "<!DOCTYPE configuration [<!ENTITY secret SYSTEM 'file:///etc/passwd'>]>",
        f"<!DOCTYPE configuration [{ENTITY}{BOMB}]>",
        "<!DOCTYPE configuration [<!ENTITY % remote SYSTEM 'http://127.0.0.1:1/x'>%remote;]>",
    ],
)
def test_document_types_and_entities_are_refused(document_type: str, tmp_path: Path) -> None:
    text = document_type + document("<name>&secret;&h;</name>")
    problem = "a document type (<!DOCTYPE ...>) and entities are refused in a configuration"
    assert refused_text(tmp_path, text) == [problem]


def test_the_entities_of_xml_itself_and_cdata_are_read(tmp_path: Path) -> None:
    assert load(tmp_path, "<name>a&amp;b<![CDATA[<c>]]>&#x64;</name>").config.name == "a&b<c>d"


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    deep = "<a>" * 200_000 + "</a>" * 200_000
    assert refused_text(tmp_path, document(deep)) == ["elements are nested more than 64 deep"]


def test_a_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "FILE_BYTES_MAX", len(NAMED.encode()))
    assert load_text(tmp_path, NAMED).config.name == "Käfer"
    monkeypatch.setattr(documents, "FILE_BYTES_MAX", len(NAMED.encode()) - 1)
    assert refused_text(tmp_path, NAMED) == [f"longer than {len(NAMED.encode()) - 1} bytes"]


def test_a_file_that_is_not_there_is_an_operating_system_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.xml"):
        load_config(tmp_path / "nowhere.xml")


def test_namespaces_may_be_left_out_or_have_prefixes(tmp_path: Path) -> None:
    plain = f"<configuration><core>{ACCEPTOR}<name>a</name></core></configuration>"
    assert load_text(tmp_path, plain).config.name == "a"
    prefixed = (
        "<c:configuration xmlns:c='urn:activemq' xmlns:k='urn:activemq:core'"
        " xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='urn:activemq x.xsd'>"
        "<k:core xml:base='here'><k:name>b</k:name></k:core></c:configuration>"
    )
    assert load_text(tmp_path, prefixed).config.name == "b"


@pytest.mark.parametrize("text", ["<broker/>", "<beans xmlns='http://www.springframework.org/schema/beans'/>"])
def test_another_outermost_element_is_refused(text: str, tmp_path: Path) -> None:
    (problem,) = refused_text(tmp_path, text)
    assert problem.startswith("the outermost element must be <configuration xmlns='urn:activemq'>, not <")


def test_a_file_without_core_is_refused(tmp_path: Path) -> None:
    for text in (
        "<configuration xmlns='urn:activemq'/>",
        "<configuration><jms><queue name='a'/></jms></configuration>",
    ):
        assert refused_text(tmp_path, text) == ["has no <core xmlns='urn:activemq:core'>"]


# -- substitution ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("${NODE}", "from-environment"),
        ("${node}", "from-properties"),
        ("${BOTH}", "properties-win"),
        ("${ nowhere : a default }", "a default"),
        ("${ node }|${ node : a default }", "from-properties|from-properties"),
        ("${nowhere:tcp://a:1}", "tcp://a:1"),
        ("a-${node}-${NODE}-${node}", "a-from-properties-from-environment-from-properties"),
        ("${outer}", "from-properties"),
        ("a}b", "a}b"),
        ("a${b", "a${b"),
    ],
)
def test_references_are_replaced(text: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE", "from-environment")
    monkeypatch.setenv("BOTH", "the environment")
    properties = {"node": "from-properties", "BOTH": "properties-win", "outer": "${node}"}
    loaded = load(tmp_path, f"<name>{text}</name>", properties)
    assert loaded.config.name == name
    assert loaded.warnings == []


def test_a_reference_may_stand_in_an_attribute_and_for_elements(tmp_path: Path) -> None:
    properties = {"match": "orders.#", "more": "<max-size-bytes>5</max-size-bytes>"}
    core = "<address-settings><address-setting match='${match}'>${more}</address-setting></address-settings>"
    assert load(tmp_path, core, properties).config.address_settings["orders.#"].max_size_bytes == 5


def test_a_reference_that_nobody_knows_is_empty_and_a_warning(tmp_path: Path) -> None:
    loaded = load(tmp_path, "<name>a${nowhere.to.be.found}b</name>")
    assert loaded.config.name == "ab"
    (warning,) = loaded.warnings
    assert warning.endswith("${nowhere.to.be.found} is neither a property nor in the environment: it reads as empty")


@pytest.mark.parametrize("properties", [{"a": "${a}"}, {"a": "${b}", "b": "${a}"}, {"a": "x${a}${a}"}])
def test_references_that_lead_in_a_circle_are_refused(properties: dict[str, str], tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "<name>${a}</name>", properties)
    assert problem.endswith("} leads back to itself")


def test_a_value_that_is_no_text_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "<name>${a}</name>", {"a": "\udcff"}) == [
        "a property that is put in holds bytes that are no text"
    ]


# -- included files --------------------------------------------------------------------------------------------------

SETTINGS = (
    "<address-settings xmlns='urn:activemq:core'><address-setting match='a'>{}</address-setting></address-settings>"
)


def test_an_included_file_stands_in_for_the_include(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "settings.xml").write_text(SETTINGS.format("<expiry-delay>${delay}</expiry-delay>"))
    include = "<xi:include href='${where}/settings.xml'/>"
    config = load(tmp_path, include, {"where": "parts", "delay": "9"}).config
    assert config.address_settings["a"].expiry_delay_ms == 9


def test_errors_in_an_included_file_name_it(tmp_path: Path) -> None:
    (tmp_path / "settings.xml").write_text(SETTINGS.format("<expiry-delya>1</expiry-delya>"))
    (problem,) = refused(tmp_path, "<xi:include href='settings.xml'/>")
    assert problem == (
        f"{tmp_path / 'settings.xml'}: core/address-settings/address-setting[a]/expiry-delya: unknown name; "
        "did you mean 'expiry-delay'?"
    )


def test_an_included_file_may_include_others_but_not_itself(tmp_path: Path) -> None:
    xi = "xmlns='urn:activemq:core' xmlns:xi='http://www.w3.org/2001/XInclude'"
    (tmp_path / "a.xml").write_text(f"<address-settings {xi}><xi:include href='b.xml'/></address-settings>")
    (tmp_path / "b.xml").write_text("<address-setting xmlns='urn:activemq:core' match='b'/>")
    assert list(load(tmp_path, "<xi:include href='a.xml'/>").config.address_settings) == ["b"]
    (tmp_path / "b.xml").write_text(f"<address-setting {xi}><xi:include href='a.xml'/></address-setting>")
    assert "'a.xml' is included in itself" in refused(tmp_path, "<xi:include href='a.xml'/>")[0]


@pytest.mark.parametrize(
    ("include", "problem"),
    [
        ("<xi:include href='nowhere.xml'/>", "cannot read {0}/nowhere.xml: No such file or directory"),
        ("<xi:include href='http://localhost/a.xml'/>", "'http://localhost/a.xml' is no file name: only local files"),
        ("<xi:include href='file:///etc/a.xml'/>", "'file:///etc/a.xml' is no file name: only local files"),
        ("<xi:include/>", "an include is <xi:include href='FILE'/> here"),
        ("<xi:include href='a.xml' parse='text'/>", "an include is <xi:include href='FILE'/> here"),
        ("<xi:include href='a.xml' xpointer='x'/>", "an include is <xi:include href='FILE'/> here"),
        ("<xi:include href='a.xml'><xi:fallback/></xi:include>", "an include is <xi:include href='FILE'/> here"),
    ],
)
def test_other_includes_are_refused(include: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, include)
    assert found.startswith(f"core/xi:include: {problem.format(tmp_path)}")


def test_links_that_lead_in_a_circle_are_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.xml").symlink_to("a.xml")
    (problem,) = refused(tmp_path, "<xi:include href='a.xml'/>")
    assert problem.startswith(f"core/xi:include: cannot read {tmp_path / 'a.xml'}: ")
    with pytest.raises(OSError, match="symbolic links"):
        load_config(tmp_path / "a.xml")


def test_properties_are_texts(tmp_path: Path) -> None:
    for name in ("port", "artemis.instance"):
        with pytest.raises(TypeError, match=f"properties must map names to texts, not '{name}' to 61616"):
            load_config(tmp_path / "broker.xml", properties={name: 61616})  # type: ignore[dict-item]


def test_an_included_file_that_is_no_xml_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<!DOCTYPE a><a/>")
    with pytest.raises(ConfigFileError, match=r"a\.xml: a document type"):
        load(tmp_path, "<xi:include href='a.xml'/>")
