"""Users, permissions and masked passwords of the directory that `artemis create` makes."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import pytest
from attrs import fields

from embedbroker.config import (
    BrokerConfig,
    GuestLogin,
    ResourceLimits,
    SecuritySetting,
    User,
    UserChange,
    UserSource,
)
from embedbroker.configfile import _java_properties
from embedbroker.configfile._java_properties import PropertiesFile, parse_properties
from embedbroker.security import StoredPassword, hash_password_as_artemis, mask
from tests.embedbroker.configfile.config_files import ACCEPTOR, Loaded, document, load, load_text, refused, refused_text

HASH = hash_password_as_artemis("secret", bytes(32))
MODULE = "org.apache.activemq.artemis.spi.core.security.jaas"
PROPERTIES = f"""
   {MODULE}.PropertiesLoginModule FLAG
       debug=false
       reload=true
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
"""
GUEST = f"""
   {MODULE}.GuestLoginModule FLAG
       debug=false
       org.apache.activemq.jaas.guest.user="admin"
       org.apache.activemq.jaas.guest.role="amq";
"""
SETTINGS = """
    <security-settings><security-setting match="#"><permission type="send" roles="amq"/></security-setting>
    </security-settings>
"""
ADMIN = User("admin", HASH, roles=["amq"])


def modules(*parts: str, flag: str = "sufficient", domain: str = "activemq") -> str:
    return f"/* A comment. */\n{domain} {{\n" + "".join(parts).replace("FLAG", flag) + "};"


def write(directory: Path, login: str, users: str = f"# users\n\nadmin = {HASH}", roles: str = "\namq = admin") -> Path:
    (directory / "login.config").write_text(login)
    (directory / "artemis-users.properties").write_text(users, encoding="iso-8859-1")
    (directory / "artemis-roles.properties").write_text(roles, encoding="iso-8859-1")
    return directory


def secured(directory: Path, core: str = SETTINGS) -> Loaded:
    return load_text(directory, document(ACCEPTOR + core))


def test_a_directory_that_requires_a_login(tmp_path: Path) -> None:
    loaded = secured(write(tmp_path, modules(PROPERTIES, flag="required")))
    assert loaded.warnings == []
    config = loaded.config
    assert (config.users, config.guest, config.is_secured) == ((ADMIN,), None, True)
    assert config.security_settings == {"#": SecuritySetting(send=["amq"])}
    assert HASH not in repr(config)


def test_a_directory_that_allows_anonymous_clients(tmp_path: Path) -> None:
    loaded = secured(write(tmp_path, modules(PROPERTIES, GUEST)))
    assert loaded.warnings == []
    assert (loaded.config.users, loaded.config.guest) == ((ADMIN,), GuestLogin("admin", "amq"))


@pytest.mark.parametrize(
    ("login", "users", "guest", "warning"),
    [
        (modules(GUEST), (), GuestLogin("admin", "amq"), None),
        (
            modules(f"{MODULE}.GuestLoginModule FLAG credentialsInvalidate=true;"),
            (),
            GuestLogin("guest", "guests", True),
            None,
        ),
        (modules(PROPERTIES.replace("FLAG", "required"), GUEST), (ADMIN,), None, "the guest login admits nothing"),
        (modules(GUEST, PROPERTIES), (), GuestLogin("admin", "amq"), "every client is a guest"),
        (
            modules(PROPERTIES, f"{MODULE}.LDAPLoginModule optional;"),
            (ADMIN,),
            None,
            "LDAPLoginModule is not there yet",
        ),
        ("// none\nactivemq { };", (), None, None),
    ],
)
def test_modules_work_together_as_in_java(
    login: str, users: tuple[User, ...], guest: GuestLogin | None, warning: str | None, tmp_path: Path
) -> None:
    loaded = secured(write(tmp_path, login))
    assert (loaded.config.users, loaded.config.guest, loaded.config.is_secured) == (users, guest, True)
    assert len(loaded.warnings) == (warning is not None) and (warning or "") in "".join(loaded.warnings)


def test_the_domain_is_that_of_bootstrap_xml(tmp_path: Path) -> None:
    write(tmp_path, modules(domain="other") + modules(PROPERTIES, domain="mine"))
    (tmp_path / "bootstrap.xml").write_text(
        "<broker><!-- <jaas-security domain='other'/> --><jaas-security domain='mine'/></broker>"
    )
    assert secured(tmp_path).config.users == (ADMIN,)
    (tmp_path / "bootstrap.xml").write_text("<broker><jaas-security domain='third'/></broker>")
    assert "has no entry 'third'" in refused_text(tmp_path, document(ACCEPTOR + SETTINGS))[0]


@pytest.mark.parametrize(
    ("login", "text"),
    [
        ("activemq {", "ends too early"),
        ("activemq { a.B needed; };", "expected one of required, requisite, sufficient, optional, not 'needed'"),
        ("activemq { a.B required x; };", "expected =, not ';'"),
        ("activemq { a.B required }", "expected a name, not '}'"),
        ('activemq { a.B required x="open; };', "cannot be read from"),
        ("activemq { a.LDAPLoginModule required; };", "LDAPLoginModule is required, and is not there yet"),
        (f"activemq {{ {MODULE}.PropertiesLoginModule required; }};", "PropertiesLoginModule has no org.apache"),
        (modules(PROPERTIES.replace("artemis-users", "no-users")), "no-users.properties: cannot be read: No such file"),
        ("x=${a}", "expected {"),
    ],
)
def test_a_login_configuration_that_cannot_be_kept_refuses_the_file(login: str, text: str, tmp_path: Path) -> None:
    problems = refused_text(write(tmp_path, login), document(ACCEPTOR + SETTINGS))
    assert any(text in problem for problem in problems), problems


def test_a_password_that_is_no_hash_is_refused_with_its_user_only(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES), users="admin = ENC(-41e444c3ed07d6dd)")
    (problem,) = refused_text(tmp_path, document(ACCEPTOR + SETTINGS))
    assert "artemis-users.properties: the password of user 'admin': ENC(...) does not contain a hash" in problem
    assert "41e444" not in problem


def test_blanks_in_a_list_of_users_belong_to_the_name_as_in_artemis(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES), users="a=1\nb=2\nc=3", roles="amq = a, b\nview = c,a\nview = b")
    loaded = secured(tmp_path)
    assert loaded.config.users == (User("a", "1", ["amq"]), User("b", "2", ["view"]), User("c", "3"))
    assert len(loaded.warnings) == 1 and "Artemis takes a blank for a part of the name: ' b'" in loaded.warnings[0]


def test_without_a_login_configuration_a_file_with_settings_admits_nothing(tmp_path: Path) -> None:
    for core in (SETTINGS, SETTINGS + "<security-enabled>true</security-enabled>"):
        loaded = secured(tmp_path, core)
        assert loaded.config.is_secured and loaded.config.users == () and loaded.config.guest is None
        assert [text for text in loaded.warnings if "every login is refused" in text] == loaded.warnings


def test_security_that_is_disabled_reads_no_login_configuration(tmp_path: Path) -> None:
    write(tmp_path, "not { readable")
    loaded = secured(tmp_path, SETTINGS + "<security-enabled>false</security-enabled>")
    assert loaded.warnings == [] and not loaded.config.is_secured


def test_without_settings_users_may_do_nothing(tmp_path: Path) -> None:
    loaded = secured(write(tmp_path, modules(PROPERTIES)), "")
    assert loaded.config.is_secured and loaded.config.permissions == {}
    assert len(loaded.warnings) == 1 and "every operation of a user is refused" in loaded.warnings[0]


# -- permissions -------------------------------------------------------------------------------------------------------

EVERY_TYPE = [
    *("createAddress", "deleteAddress", "createDurableQueue", "deleteDurableQueue", "createNonDurableQueue"),
    *("deleteNonDurableQueue", "send", "consume", "browse", "manage", "view", "edit"),
]


def settings_of(directory: Path, content: str) -> dict[str, SecuritySetting] | None:
    core = f"<security-settings>{content}</security-settings>"
    return load(directory, core).config.security_settings


def test_every_type_of_permission_is_read(tmp_path: Path) -> None:
    content = "".join(f"<permission type='{name}' roles='r-{name}'/>" for name in EVERY_TYPE)
    settings = settings_of(tmp_path, f"<security-setting match='a.#'>{content}</security-setting>")
    assert settings is not None
    found = settings["a.#"]
    assert found.create_address == {"r-createAddress"} and found.delete_non_durable_queue == {"r-deleteNonDurableQueue"}
    assert {role for field in fields(SecuritySetting) for role in getattr(found, field.name)} == {
        f"r-{name}" for name in EVERY_TYPE
    }


def test_roles_are_lists_and_older_names_of_permissions_are_known(tmp_path: Path) -> None:
    content = """
        <security-setting match="a">
            <permission type="send" roles=" one , two,"/><permission type="send" roles="three"/>
            <permission type="createTempQueue" roles="four"/><permission type="deleteTempQueue" roles=""/>
        </security-setting>
    """
    expected = SecuritySetting(send=["one", "two", "three"], create_non_durable_queue=["four"])
    assert settings_of(tmp_path, content) == {"a": expected}


def test_a_star_is_no_role_in_a_file(tmp_path: Path) -> None:
    content = "<security-setting match='a'><permission type='send' roles='*,one'/></security-setting>"
    loaded = load(tmp_path, f"<security-settings>{content}</security-settings>")
    assert loaded.config.security_settings == {"a": SecuritySetting(send=["one"])}
    (warning,) = loaded.warnings
    assert "permission[send]: role '*' grants nothing" in warning


def test_mapped_roles_count_as_the_listed_ones(tmp_path: Path) -> None:
    content = """
        <role-mapping from="cn=admins" to="admin, viewer"/><role-mapping from="cn=guests" to="viewer"/>
        <security-setting match="#">
            <permission type="send" roles="admin"/><permission type="browse" roles="viewer,x"/>
        </security-setting>
    """
    expected = SecuritySetting(send=["admin", "cn=admins"], browse=["viewer", "x", "cn=admins", "cn=guests"])
    assert settings_of(tmp_path, content) == {"#": expected}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<security-setting match='#'><permission type='sent' roles='a'/></security-setting>", "no permission 'sent'"),
        ("<security-setting match='#'><permission roles='a'/></security-setting>", "has no type"),
        ("<security-setting match='#'><permission type='send'/></security-setting>", "has no roles"),
        ("<security-setting><permission type='send' roles='a'/></security-setting>", "has no match"),
        ("<security-setting match='a'/><security-setting match='a'/>", "there are two of the name 'a'"),
        ("<security-setting match='a.#.b'/>", "'#' is allowed at the end only"),
    ],
)
def test_wrong_permissions_refuse_the_file(content: str, text: str, tmp_path: Path) -> None:
    problems = refused(tmp_path, f"<security-settings>{content}</security-settings>")
    assert any(text in problem for problem in problems), problems


def test_limits_of_users_are_those_of_artemis(tmp_path: Path) -> None:
    core = """
        <resource-limit-settings>
            <resource-limit-setting match="a"><max-connections>5</max-connections><max-queues>3</max-queues>
            </resource-limit-setting>
            <resource-limit-setting match="b"><max-sessions>2</max-sessions><max-connections>9</max-connections>
            </resource-limit-setting>
            <resource-limit-setting match="c"/>
        </resource-limit-settings>
    """
    # max-connections limits sessions in Artemis.
    assert load(tmp_path, core).config.resource_limits == {
        "a": ResourceLimits(max_sessions=5, max_queues=3),
        "b": ResourceLimits(max_sessions=2),
        "c": ResourceLimits(),
    }


# -- masked passwords --------------------------------------------------------------------------------------------------


def cluster_password(directory: Path, text: str, core: str = "", **properties: str) -> str:
    loaded = load(directory, f"{core}<cluster-password>{text}</cluster-password>", properties)
    return loaded.config.cluster_password


def test_a_masked_password_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "artemis.default.sensitive.string.codec.key"
    codec = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec"
    assert cluster_password(tmp_path, f"ENC({mask('secret')})") == "secret"
    assert cluster_password(tmp_path, mask("secret"), "<mask-password>true</mask-password>") == "secret"
    assert cluster_password(tmp_path, "ENC(x)", "<mask-password>false</mask-password>") == "ENC(x)"
    mine = mask("secret", "my own key")
    assert (
        cluster_password(tmp_path, f"ENC({mine})", f"<password-codec>{codec};key=my own key</password-codec>")
        == "secret"
    )
    assert cluster_password(tmp_path, f"ENC({mine})", **{key: "my own key"}) == "secret"
    monkeypatch.setenv(key.upper().replace(".", "_"), "my own key")
    assert cluster_password(tmp_path, f"ENC({mine})") == "secret"


def test_a_codec_of_another_kind_is_refused_where_it_is_needed(tmp_path: Path) -> None:
    codec = "<password-codec>com.example.Codec</password-codec>"
    assert cluster_password(tmp_path, "plain", codec) == "plain"
    (problem,) = refused(tmp_path, f"{codec}<cluster-password>ENC(12)</cluster-password>")
    assert problem == "core/cluster-password: is masked for the codec com.example.Codec, which is not there yet"


# -- properties --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("  a:b\n\ta b c\n", {"a": "b c"}),
        ("# a=b\n! c=d\n\n   # e", {}),
        ("a", {"a": ""}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\=b=c=d", {"a=b": "c=d"}),
        ("a=b\\\n   c\\\n  d\ne=f", {"a": "bcd", "e": "f"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=\\t\\u00e9\\q", {"a": "\té" + "q"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=1\r\nb=2\ra=3", {"a": "3", "b": "2"}),
        ("a=b\\", {"a": "b"}),
        ("a : = b", {"a": "= b"}),
        ("=b", {"": "b"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_the_default_of_a_file_is_that_of_the_values(tmp_path: Path) -> None:
    assert load(tmp_path, "").config.resource_limits == BrokerConfig().resource_limits


CERTIFICATES = f"""
   {MODULE}.TextFileCertificateLoginModule FLAG
       reload=true
       org.apache.activemq.jaas.textfiledn.user="cert-users.properties"
       org.apache.activemq.jaas.textfiledn.role="cert-roles.properties";
"""


def write_certificates(directory: Path, users: str, roles: str = "amq=app,many") -> None:
    (directory / "cert-users.properties").write_text(users)
    (directory / "cert-roles.properties").write_text(roles)


def test_users_of_certificates_are_read(tmp_path: Path) -> None:
    write(tmp_path, modules(CERTIFICATES, flag="required"))
    write_certificates(tmp_path, "app=CN=app, O=Example\nmany=/CN=[a-z]+, O=Example/\n")
    config = secured(tmp_path).config
    assert config.users == (
        User("app", roles=["amq"], certificate="CN=app, O=Example"),
        User("many", roles=["amq"], certificate="/CN=[a-z]+, O=Example/"),
    )


def test_a_user_may_have_a_password_and_a_certificate(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES, CERTIFICATES))
    write_certificates(tmp_path, "admin=CN=admin\nother=CN=other", roles="other=admin")
    loaded = secured(tmp_path)
    assert loaded.config.users == (
        User("admin", HASH, roles=["amq"], certificate="CN=admin"),
        User("other", certificate="CN=other"),
    )
    (warning,) = loaded.warnings
    assert "user 'admin' has other roles in a later module" in warning


@pytest.mark.parametrize(
    ("users", "text"), [("app=/(/", "no regular expression"), ("app=", "certificate must not be empty")]
)
def test_a_certificate_that_names_nothing_refuses_the_file(users: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, modules(CERTIFICATES))
    write_certificates(tmp_path, users)
    (line,) = refused_text(tmp_path, document(ACCEPTOR + SETTINGS))
    assert text in line


def test_two_required_modules_refuse_the_file(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES, CERTIFICATES, flag="required"))
    write_certificates(tmp_path, "app=CN=app")
    (line,) = refused_text(tmp_path, document(ACCEPTOR + SETTINGS))
    assert "both required; make them sufficient" in line


def test_an_empty_password_of_a_file_admits_nothing_and_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES), users=f"admin = {HASH}\nopen =\n", roles="amq = admin,open")
    loaded = secured(tmp_path)
    assert loaded.config.users == (ADMIN,)
    (warning,) = loaded.warnings
    assert "user 'open' has an empty password, and cannot log in" in warning


def test_switches_of_the_notification_plugin_are_read_and_other_plugins_are_not(tmp_path: Path) -> None:
    kind = "org.apache.activemq.artemis.core.server.plugin.impl"
    plugins = f"""<broker-plugins>
      <broker-plugin class-name="{kind}.NotificationActiveMQServerPlugin">
        <property key="SEND_CONNECTION_NOTIFICATIONS" value="true"/>
        <property key="SEND_EXPIRED_NOTIFICATIONS" value="true"/>
      </broker-plugin>
      <broker-plugin class-name="{kind}.LoggingActiveMQServerPlugin"/>
    </broker-plugins>"""
    loaded = load_text(tmp_path, document(ACCEPTOR + "<security-enabled>false</security-enabled>" + plugins))
    assert loaded.config.send_connection_notifications and not loaded.config.send_address_notifications
    assert len(loaded.warnings) == 2


def test_a_plugin_that_restricts_readers_is_refused(tmp_path: Path) -> None:
    name = "org.apache.activemq.artemis.core.server.plugin.impl.BrokerMessageAuthorizationPlugin"
    plugins = f"""<broker-plugins><broker-plugin class-name="{name}">
      <property key="ROLE_PROPERTY" value="requiredRole"/>
    </broker-plugin></broker-plugins>"""
    (problem,) = refused_text(tmp_path, document(ACCEPTOR + "<security-enabled>false</security-enabled>" + plugins))
    assert f"{name} is not supported; separate the messages by queues" in problem


def test_changed_files_of_a_module_that_reloads_are_read_again(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES))
    source = secured(tmp_path).config.user_source
    assert source is not None and source.refresh() is None
    (tmp_path / "artemis-users.properties").write_text("admin = new\nother = x")
    assert source.refresh() == ((User("admin", "new", roles=["amq"]), User("other", "x")), None)
    assert source.refresh() is None
    (tmp_path / "artemis-roles.properties").write_text("amq = admin,other")
    changed = source.refresh()
    assert changed is not None and [user.roles for user in changed[0]] == [{"amq"}, {"amq"}]


def test_changed_files_that_are_wrong_are_reported_until_they_can_be_used(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES))
    source = secured(tmp_path).config.user_source
    assert source is not None
    users = tmp_path / "artemis-users.properties"
    users.write_text("admin = ENC(nonsense)")
    for _ in range(2):
        with pytest.raises(ValueError, match="the password of user 'admin'"):
            source.refresh()
    users.unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        source.refresh()
    users.write_text("admin = x")
    assert source.refresh() == ((User("admin", "x", roles=["amq"]),), None)
    assert source.refresh() is None


def test_files_of_a_module_that_does_not_reload_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, modules(PROPERTIES.replace("reload=true", "reload=false")))
    source = secured(tmp_path).config.user_source
    assert source is not None
    (tmp_path / "artemis-users.properties").write_text("admin = new")
    assert source.refresh() is None
    # After a change by management the files are read in any case.
    assert source.refresh(always=True) == ((User("admin", "new", roles=["amq"]),), None)


# -- changes of the files --------------------------------------------------------------------------------------------

USERS = "# the users\nadmin = one\n\n! a second one\nother=two\nlast: \\\n   three"
ROLES = "## roles\namq = admin,other\nview=other\n"


def changed(folder: Path, users: str = USERS, roles: str = ROLES) -> UserSource:
    write(folder, modules(PROPERTIES))
    (folder / "artemis-users.properties").write_text(users)
    (folder / "artemis-roles.properties").write_text(roles)
    source = secured(folder).config.user_source
    assert source is not None
    return source


def texts(folder: Path) -> tuple[str, str]:
    return tuple((folder / f"artemis-{name}.properties").read_text() for name in ("users", "roles"))  # type: ignore[return-value]


def test_a_new_user_stands_behind_the_others_and_comments_stay(tmp_path: Path) -> None:
    source = changed(tmp_path)
    (tmp_path / "artemis-users.properties").chmod(0o640)
    source.change(UserChange("a b", adds=True, password="p=\u20ac", roles=("amq", "new role")))
    users, roles = texts(tmp_path)
    assert users == USERS + "\na\\ b = p=\\u20AC\n"
    assert roles == "## roles\namq = admin,other,a b\nview=other\nnew\\ role = a b\n"
    assert (tmp_path / "artemis-users.properties").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    refreshed = source.refresh()
    assert refreshed is not None and refreshed[0][-1] == User("a b", "p=\u20ac", roles=["amq", "new role"])


def test_other_passwords_and_roles_stand_in_their_places(tmp_path: Path) -> None:
    source = changed(tmp_path)
    source.change(UserChange("other", password="changed", roles=("view", "extra")))
    assert texts(tmp_path) == (
        USERS.replace("other=two", "other = changed"), "## roles\namq = admin\nview=other\nextra = other\n"
    )  # fmt: skip
    source.change(UserChange("last", roles=("view",)))
    assert texts(tmp_path)[1] == "## roles\namq = admin\nview = other,last\nextra = other\n"
    source.change(UserChange("admin", password="ninety"))
    assert texts(tmp_path)[0].startswith("# the users\nadmin = ninety\n\n! a second one\n")


def test_a_removed_user_has_no_role_and_a_role_without_users_goes(tmp_path: Path) -> None:
    source = changed(tmp_path)
    source.change(UserChange("other", removes=True))
    assert texts(tmp_path) == (USERS.replace("other=two\n", ""), "## roles\namq = admin\n")
    assert source.list_users(None) == {"admin": ["amq"], "last": []}
    # As in Artemis a name need not be that of a user.
    assert source.list_users("nope") == {"nope": []}


def test_hashes_are_those_of_artemis(tmp_path: Path) -> None:
    source = changed(tmp_path)
    source.change(UserChange("admin", password="new", hashes=True))
    stored = parse_properties(texts(tmp_path)[0])["admin"]
    assert re.fullmatch("ENC\\(1024:[0-9A-F]{64}:[0-9A-F]{128}\\)", stored)
    assert StoredPassword(stored).matches("new")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (UserChange("admin", adds=True, password="x", roles=("amq",)), "AMQ229223: User admin already exists"),
        (UserChange("nope", password="x"), "AMQ229224: User nope does not exist"),
        (UserChange("nope", removes=True), "AMQ229224: User nope does not exist"),
        (UserChange("admin", password="ENC(nonsense)"), "does not contain a hash"),
    ],
)
def test_a_change_that_is_not_possible_leaves_the_files(tmp_path: Path, change: UserChange, text: str) -> None:
    source = changed(tmp_path)
    with pytest.raises(ValueError, match=text):
        source.change(change)
    assert texts(tmp_path) == (USERS, ROLES)


def test_roles_are_those_of_logins_where_names_have_outer_blanks(tmp_path: Path) -> None:
    source = changed(
        tmp_path, users="bob\\ = one\nbob = two\nlast = three", roles="amq = last,bob \nview = bob, last\n"
    )

    def agree() -> dict[str, list[str]]:
        refreshed = source.refresh(always=True)
        assert refreshed is not None
        listed = source.list_users(None)
        assert listed == {user.name: sorted(user.roles) for user in refreshed[0]}
        return listed

    assert agree() == {"bob ": ["amq"], "bob": ["view"], "last": ["amq"]}
    source.change(UserChange("bob ", roles=("view",)))
    assert agree() == {"bob ": ["view"], "bob": ["view"], "last": ["amq"]}
    source.change(UserChange("bob ", removes=True))
    assert texts(tmp_path)[1] == "amq = last\nview = bob, last\n"
    source.change(UserChange("bob ", adds=True, password="new", roles=("other",)))
    assert agree() == {"bob ": ["other"], "bob": ["view"], "last": ["amq"]}


def test_a_file_that_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 60_000
    monkeypatch.setattr(_java_properties, "FILE_BYTES_MAX", limit)
    # A character beyond ISO 8859-1 takes six bytes.
    source = changed(tmp_path)
    for change in (
        UserChange("new", adds=True, password="\u20ac" * (limit // 6), roles=("amq",)),
        UserChange("admin", password="new", roles=("\u20ac" * (limit // 6),)),
    ):
        with pytest.raises(ValueError, match=rf"would have 60\d+ bytes, more than {limit}"):
            source.change(change)
        assert texts(tmp_path) == (USERS, ROLES)
    file = PropertiesFile(tmp_path / "artemis-users.properties")
    file.set("new", "x" * limit)
    with pytest.raises(ValueError, match="remove entries first"):
        file.write()
    assert texts(tmp_path) == (USERS, ROLES)


def test_a_folder_that_cannot_be_synced_leaves_the_files_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, sync = changed(tmp_path), os.fsync

    def fail_for_folders(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(number)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    source.change(UserChange("new", adds=True, password="p", roles=("amq",)))
    assert source.list_users("new") == {"new": ["amq"]} and "new = p" in texts(tmp_path)[0]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/artemis-{name}.properties is written, but may be lost in a crash of the machine: Input/output "
        "error"
        for name in ("roles", "users")
    ]


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = changed(tmp_path)

    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(ValueError, match="cannot be written: No space left on device"):
            source.change(UserChange("admin", password="x"))
    assert texts(tmp_path) == (USERS, ROLES)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (tmp_path / "artemis-roles.properties").unlink()
    with pytest.raises(ValueError, match=r"AMQ229221: Failed to load role file: .*artemis-roles\.properties"):
        source.change(UserChange("admin", password="x"))


def test_without_a_module_for_users_nothing_can_be_changed(tmp_path: Path) -> None:
    write(tmp_path, modules(GUEST))
    source = secured(tmp_path).config.user_source
    assert source is not None
    with pytest.raises(ValueError, match="AMQ229222: Failed to find login module entry activemq from JAAS"):
        source.list_users(None)


def test_a_link_to_a_file_of_users_stays_a_link(tmp_path: Path) -> None:
    source = changed(tmp_path)
    target = tmp_path / "elsewhere.properties"
    (tmp_path / "artemis-users.properties").rename(target)
    (tmp_path / "artemis-users.properties").symlink_to(target)
    source.change(UserChange("admin", removes=True))
    assert (tmp_path / "artemis-users.properties").is_symlink() and "admin" not in target.read_text()
