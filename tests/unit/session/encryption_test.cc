#include "session/encryption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "agree_each.h"
#include "base/log.h"
#include "client/control_client.h"
#include "client/switch_entry.h"
#include "open_sessions.h"
#include "path/payload.h"
#include "reduced.h"
#include "temporary_file.h"
#include "transport/sealed_link.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- what is decided ----

Roster roster_of(const std::vector<std::string>& hosts, Encryption wish, std::optional<int> without_aes = {}) {
  Roster roster;
  roster.hosts = hosts;
  roster.layout = HostLayout::of(hosts);
  roster.encryption = wish;
  roster.without_aes = without_aes;
  return roster;
}
const std::vector<std::string> kOne = {"a", "a"}, kTwo = {"a", "b"};

struct Given {
  Encryption wish;
  std::vector<std::string> hosts;
  const char* named;  // "switch", "controller" or ""
  bool has_key;
  bool has_aes;
};

Config config_of(const Given& given) {
  Config config;
  if (given.named == std::string("switch")) config.switch_address = "10.0.0.1:5";
  if (given.named == std::string("controller")) config.controller = "10.0.0.1:5";
  if (given.has_key) config.switch_key_file = "/key";
  return config;
}

/// "switches ranks", or the error.
std::string chosen(const Given& given) {
  const Roster roster = roster_of(given.hosts, given.wish, given.has_aes ? std::optional<int>() : 1);
  const auto seals = choose_seals(config_of(given), roster, "group g");
  if (!seals.ok()) return seals.status().message();
  return std::string(seals->switches ? "switches " : "") + (seals->ranks ? "ranks" : "");
}

TEST(Encryption, IsOnByItselfBetweenHosts) {
  for (const bool aes : {true, false}) {
    EXPECT_EQ(chosen({Encryption::kAuto, kTwo, "", false, aes}), aes ? "switches ranks" : "");
    EXPECT_EQ(chosen({Encryption::kAuto, kOne, "", false, aes}), "") << "nothing leaves the host";
    EXPECT_EQ(chosen({Encryption::kAuto, kTwo, "switch", false, aes}), aes ? "ranks" : "") << "it may be a chip";
    EXPECT_EQ(chosen({Encryption::kAuto, kOne, "switch", false, aes}), "");
  }
}

TEST(Encryption, IsOnByItselfToASwitchWithAKeyWhichHearsNothingElse) {
  for (const char* named : {"switch", "controller"}) {
    for (const bool aes : {true, false}) {
      EXPECT_EQ(chosen({Encryption::kAuto, kTwo, named, true, aes}), "switches ranks");
      EXPECT_EQ(chosen({Encryption::kAuto, kOne, named, true, aes}), "switches ");
    }
  }
}

TEST(Encryption, IsOffWhereThatIsSaid) {
  for (const bool key : {true, false}) {
    EXPECT_EQ(chosen({Encryption::kOff, kTwo, "switch", key, true}), "");
    EXPECT_EQ(chosen({Encryption::kOff, kTwo, "", key, true}), "");
  }
}

TEST(Encryption, IsOnWhereThatIsSaidOrAnErrorWithTheRemedy) {
  for (const bool aes : {true, false}) {
    for (const auto& hosts : {kOne, kTwo})
      EXPECT_EQ(chosen({Encryption::kOn, hosts, "", false, aes}), "switches ranks");
    for (const char* named : {"switch", "controller"}) {
      EXPECT_EQ(chosen({Encryption::kOn, kTwo, named, true, aes}), "switches ranks");
      EXPECT_THAT(chosen({Encryption::kOn, kOne, named, false, aes}),
                  AllOf(HasSubstr("SWITCHML_ENCRYPTION=\"on\" cannot be had"), HasSubstr("=\"10.0.0.1:5\" names"),
                        HasSubstr("--key-file"), HasSubstr("SWITCHML_SWITCH_KEY_FILE")));
    }
  }
}

TEST(Encryption, IsNotForChipsThatEndQueuePairs) {
  Config config = config_of({Encryption::kOn, kTwo, "controller", true, true});
  config.transport = "rdma";
  const Status status = choose_seals(config, roster_of(kTwo, Encryption::kOn), "group g").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("decrypts nothing"), HasSubstr("SWITCHML_TRANSPORT")));
  EXPECT_FALSE(choose_seals(config, roster_of(kTwo, Encryption::kAuto), "group g")->switches);
}

TEST(Encryption, WhatIsPlainBetweenHostsIsLoggedWithTheReason) {
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  chosen({Encryption::kAuto, kTwo, "switch", false, true});
  chosen({Encryption::kAuto, kTwo, "", false, false});
  const std::string log = ::testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kWarning);
  EXPECT_THAT(log,
              AllOf(HasSubstr("group g: what goes to its switches is not encrypted: SWITCHML_SWITCH=\"10.0.0.1:5\""),
                    HasSubstr("the processor of rank 1 has no instructions for AES")));
}

// ---- what ranks agree on ----

Config on_hosts(Encryption wish = Encryption::kAuto, const std::string& transport = "udp") {
  Config config = config_over(transport);
  config.encryption = wish;
  return config;
}

void expect_sealed(const Outcome& outcome, bool sealed) {
  ASSERT_FALSE(outcome.ranks.empty());
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    for (const SessionParameters& session : rank->sessions) {
      EXPECT_EQ(session.seal.has_value(), sealed);
      EXPECT_EQ(session.seals_ranks, sealed);
      EXPECT_EQ(session.seal, outcome.ranks[0]->sessions[0].seal);
    }
  }
}

TEST(AgreementOnEncryption, RanksOfSeveralHostsHaveAKeyThatNoOtherGroupHas) {
  std::vector<SealKey> keys;
  for (const char* transport : {"udp", "tcp"}) {
    MapStore store;
    const Outcome outcome = agree_on_hosts("abc", on_hosts(Encryption::kAuto, transport), store);
    expect_sealed(outcome, true);
    keys.push_back(outcome.ranks[0]->sessions[0].seal.value_or(SealKey()));
  }
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_NE(keys[0], SealKey());
}

TEST(AgreementOnEncryption, OneRankWithoutInstructionsForAesIsEnoughForNone) {
  MapStore stores[2];
  const Alteration without = other_hello("aes", "0");
  expect_sealed(agree_on_hosts("ab", on_hosts(), stores[0], without), false);
  expect_sealed(agree_on_hosts("ab", on_hosts(Encryption::kOn), stores[1], without), true);
}

// It would be spoken to in the clear.
TEST(AgreementOnEncryption, ASwitchThatIsAnnouncedWithoutAKeyIsRefused) {
  MapStore store;
  const Outcome outcome =
      agree_on_hosts("ab", on_hosts(), store, {1, rank_key("switch", 0), [](Blob* said) { said->set("seal", ""); }});
  ASSERT_FALSE(outcome.ranks[1].ok());
  EXPECT_THAT(outcome.ranks[1].status().message(), HasSubstr("was announced without a key"));
  EXPECT_FALSE(outcome.ranks[0].ok());
}

/// Ranks of one host, each with a wish of its own.
Outcome agree_wishing(const std::vector<Encryption>& wishes) {
  MapStore store;
  return agree_all(
      static_cast<int>(wishes.size()), [&](int rank) { return on_hosts(wishes[static_cast<size_t>(rank)]); }, store);
}

TEST(AgreementOnEncryption, AutoGoesWithWhatOthersSay) {
  using E = Encryption;
  expect_sealed(agree_wishing({E::kAuto, E::kAuto}), false);
  expect_sealed(agree_wishing({E::kAuto, E::kOn, E::kAuto}), true);
  expect_sealed(agree_wishing({E::kOn, E::kAuto}), true);
  MapStore store;
  expect_sealed(agree_on_hosts("ab", on_hosts(), store, other_hello("encryption", "off")), false);
}

TEST(AgreementOnEncryption, OnWithOffIsAnErrorOnAll) {
  using E = Encryption;
  Status status = common_failure(agree_wishing({E::kAuto, E::kOn, E::kOff}));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("rank 2 has SWITCHML_ENCRYPTION \"off\" but rank 1 has \"on\""));
  status = common_failure(agree_wishing({E::kOff, E::kOn}));
  EXPECT_THAT(status.message(), HasSubstr("rank 0 has SWITCHML_ENCRYPTION \"off\" but rank 1 has \"on\""));
}

// ---- a switch that is named ----

const SealKey kKey = {{1, 2, 3}};

struct KeyedSwitch {
  explicit KeyedSwitch(const SealKey& key = kKey) : file(to_hex(key) + "\n") {
    EXPECT_EQ(::chmod(file.path().c_str(), 0600), 0);
    ServerOptions options;
    options.seal = kKey;
    server = start_switch(options);
    config = on_hosts();
    config.switch_address = to_string(server->local());
    config.switch_key_file = file.path();
  }
  Outcome agree_as(const std::function<Config(int)>& config_of, Duration timeout = seconds(20)) {
    MapStore store;
    return agree_all(2, config_of, store, {}, nullptr, timeout);
  }
  const TemporaryFile file;
  std::unique_ptr<SwitchServer> server;
  Config config;
};

TEST(NamedSwitchWithAKey, IsSpokenToOverSealedLinks) {
  KeyedSwitch keyed;
  for (const char* transport : {"udp", "tcp"}) {
    keyed.config.transport = transport;
    const Outcome outcome = keyed.agree_as([&](int) { return keyed.config; });
    for (const auto& rank : outcome.ranks) {
      ASSERT_TRUE(rank.ok()) << rank.status().to_string();
      EXPECT_EQ(rank->sessions[0].seal, kKey);
      leave(rank->sessions, monotonic_now() + seconds(20));
    }
  }
  EXPECT_EQ(keyed.server->counters().sessions_closed.get(), 2U);
}

TEST(NamedSwitchWithAKey, DoesNotAnswerRanksThatHaveAnotherOne) {
  KeyedSwitch keyed(SealKey{{9}});
  keyed.config.connect_timeout = seconds(3);
  const Status status = common_failure(keyed.agree_as([&](int) { return keyed.config; }));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("has it the same key?"));
}

TEST(NamedSwitchWithAKey, RanksMustHaveTheSameFile) {
  KeyedSwitch keyed, other(SealKey{{9}});
  Status status = common_failure(keyed.agree_as([&](int rank) {
    return rank == 0 ? keyed.config : [&] {
      Config without = keyed.config;
      without.switch_key_file.clear();
      return without;
    }();
  }));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 has a hash of the key in SWITCHML_SWITCH_KEY_FILE none"),
                                      Not(HasSubstr(to_hex(kKey).substr(0, 6)))));
  Config wrong = keyed.config;
  wrong.switch_key_file = other.file.path();
  status = common_failure(keyed.agree_as([&](int rank) { return rank == 0 ? keyed.config : wrong; }));
  EXPECT_THAT(status.message(), HasSubstr("rank 1 has a hash of the key in SWITCHML_SWITCH_KEY_FILE \""));
}

TEST(NamedSwitchWithAKey, AFileThatOthersReadOrThatHasNoKeyIsNamedOnAll) {
  KeyedSwitch keyed;
  const auto failure = [&] {
    return common_failure(keyed.agree_as([&](int rank) { return rank == 1 ? keyed.config : on_hosts(); }));
  };
  ASSERT_EQ(::chmod(keyed.file.path().c_str(), 0644), 0);
  EXPECT_THAT(failure().message(), AllOf(HasSubstr("rank 1: SWITCHML_SWITCH_KEY_FILE=\"" + keyed.file.path()),
                                         HasSubstr("others may read it")));
  const TemporaryFile no_key("secret-but-no-key\n");
  ASSERT_EQ(::chmod(no_key.path().c_str(), 0600), 0);
  keyed.config.switch_key_file = no_key.path();
  EXPECT_THAT(failure().message(), AllOf(HasSubstr("64 hexadecimal digits"), Not(HasSubstr("secret-but-no-key"))));
}

// ---- sums ----

/// What all ranks of `hosts` get, whose floats are uneven.
std::vector<std::vector<float>> sums_of(const std::string& hosts, const Config& config, bool encrypts) {
  OpenSessions opened(hosts, config);
  EXPECT_TRUE(opened.complete());
  std::vector<std::vector<float>> values;
  for (size_t rank = 0; rank < hosts.size(); ++rank) values.push_back(uneven(static_cast<int>(rank), 70001));
  std::vector<std::future<Status>> pending;
  for (size_t rank = 0; opened.complete() && rank < hosts.size(); ++rank) {
    EXPECT_EQ(opened.sessions[rank]->abilities().encrypts, encrypts);
    pending.push_back(submit(*opened.sessions[rank], in_place(&values[rank], ElementType::kFloat32), seconds(60)));
  }
  for (auto& one : pending) {
    const Status status = one.get();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  return values;
}

TEST(EncryptedSums, HaveTheBitsOfPlainOnes) {
  for (const char* transport : {"udp", "tcp", "auto"}) {
    for (const Precision precision : {Precision::kAuto, Precision::kInteger}) {
      for (const std::string hosts : {"aa", "abb"}) {
        SCOPED_TRACE(hosts + transport + name_of(precision));
        Config on = on_hosts(Encryption::kOn, transport), off = on_hosts(Encryption::kOff, transport);
        on.precision = off.precision = precision;
        EXPECT_EQ(sums_of(hosts, on, true), sums_of(hosts, off, false));
      }
    }
  }
}

// The switch is plain, as a chip is; what ranks do beside it is not.
TEST(EncryptedSums, AreNotWhatAnIntegerSwitchWithoutAKeyMakes) {
  Config config = on_hosts();
  const auto server = start_for_all(&config);
  config.interface.clear();
  config.precision = Precision::kInteger;
  OpenSessions opened("ab", config);
  ASSERT_TRUE(opened.complete());
  for (const auto& session : opened.sessions) {
    EXPECT_FALSE(session->abilities().encrypts);
    EXPECT_FALSE(session->parameters().seal);
    EXPECT_TRUE(session->parameters().seals_ranks);
    ASSERT_NE(session->embedded(), nullptr);
  }
  const Endpoint beside = opened.sessions[0]->embedded()->local();
  const auto plain = connect_to_switch(beside);
  ASSERT_TRUE(plain.ok());
  const auto heard = ControlClient(*plain.value(), beside, "s").close({}, monotonic_now() + milliseconds(300));
  EXPECT_EQ(heard.code(), Code::kUnavailable) << "it hears what is sealed alone";
}

// A bit that is flipped makes a frame that does not open, also of integers, whose witness would end the group.
TEST(EncryptedSums, SurviveWhatNetworksDoToFrames) {
  for (const Precision precision : {Precision::kAuto, Precision::kInteger}) {
    Config on = on_hosts(Encryption::kOn), off = on_hosts(Encryption::kOff);
    on.precision = off.precision = precision;
    on.faults = "seed=7,send_loss=0.02,receive_loss=0.02,duplicate=0.05,delay=0.05,corrupt=0.02";
    EXPECT_EQ(sums_of("ab", on, true), sums_of("ab", off, false));
  }
}

// 1500 bytes of Ethernet less the headers of IP and UDP, the seal and the exact header.
TEST(EncryptedPaths, CarryThePayloadsOfPlainOnes) {
  constexpr size_t kUdpHeaders = 28;
  for (const auto& [mtu, payload] : {std::pair<size_t, size_t>{1500, 1408}, {1450, 1280}, {1420, 1280}, {9000, 8192}}) {
    EXPECT_EQ(auto_payload(mtu - kUdpHeaders - seal::kSealBytes), payload);
  }
}

// ---- messages ----

/// What becomes of a message to rank 0, of which rank 1 hears `said` as the text of its sealed door; none: as it is.
Status sent_to_rank_0(const std::optional<std::string>& said) {
  MapStore store;
  AlteredStore altered(store, rank_key("open", 0), [&](Blob* open) {
    EXPECT_EQ(open->text("0/messages_seal").size(), 128U);
    if (said) open->set("0/messages_seal", *said);
  });
  std::unique_ptr<Session> sessions[2];
  each_rank(2, [&](int rank) {
    Rendezvous& own = rank == 1 ? static_cast<Rendezvous&>(altered) : store;
    auto session = Session::open(on_hosts(Encryption::kOn), {rank, 2, "group g"}, own, monotonic_now() + seconds(60));
    EXPECT_TRUE(session.ok()) << session.status().to_string();
    if (session.ok()) sessions[rank] = std::move(session.value());
  });
  std::promise<Status> sent;
  Message message;
  message.done = [&](const Status& status, int /*source*/) { sent.set_value(status); };
  sessions[1]->messages()->send(message);
  const Status status = sent.get_future().get();
  each_rank(2, [&](int rank) { sessions[rank].reset(); });
  return status;
}

TEST(EncryptedMessages, GoThroughSealedDoorsOnly) {
  EXPECT_TRUE(sent_to_rank_0(std::nullopt).ok());
  EXPECT_THAT(sent_to_rank_0("").message(), HasSubstr("rank 0 is not reached: it takes no connections"));
}

}  // namespace
}  // namespace switchml
