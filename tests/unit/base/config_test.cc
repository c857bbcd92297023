#include "base/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace switchml {
namespace {

using Map = std::map<std::string, std::string>;

Environment from(Map variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  };
}

Result<Config> load(const Map& variables, const Map& options = {}) { return load_config(from(variables), options); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Config, DefaultsAreWhatTheTableSays) {
  auto config = load({});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->switch_address, "");
  EXPECT_EQ(config->payload_bytes, 0U);
  EXPECT_EQ(config->shards, 1);
  EXPECT_EQ(config->transport, "auto");
  EXPECT_EQ(config->connect_timeout, seconds(30));
  // Setting every default explicitly gives the very same configuration.
  Map presets;
  for (const SettingInfo& info : settings()) presets[info.name] = info.default_value;
  auto again = load({}, presets);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(describe(*config.operator->()), describe(*again.operator->()));
  EXPECT_FALSE(contains(describe(config.value()), "SWITCHML_")) << describe(config.value());
}

TEST(Config, EverySettingIsReadFromItsVariable) {
  auto config = load({{"SWITCHML_SWITCH", "10.0.0.1:5"},
                      {"SWITCHML_TRANSPORT", "udp"},
                      {"SWITCHML_ENCRYPTION", "on"},
                      {"SWITCHML_SWITCH_KEY_FILE", "/etc/switch.key"},
                      {"SWITCHML_INTERFACE", "eth7"},
                      {"SWITCHML_RDMA_DEVICE", "mlx5_0:1:3"},
                      {"SWITCHML_RDMA_TRAFFIC_CLASS", "104"},
                      {"SWITCHML_RDMA_SERVICE_LEVEL", "3"},
                      {"SWITCHML_PAYLOAD", "8192"},
                      {"SWITCHML_SLOTS", "4096"},
                      {"SWITCHML_ARENA", "65536"},
                      {"SWITCHML_PINNED_MEMORY", "64"},
                      {"SWITCHML_BLOCKING_WAIT", "on"},
                      {"SWITCHML_SHARDS", "16"},
                      {"SWITCHML_KERNELS", "scalar"},
                      {"SWITCHML_AFFINITY", "0-3,8"},
                      {"SWITCHML_CONNECT_TIMEOUT", "0.5"},
                      {"SWITCHML_SLOW_WARNING", "86400"},
                      {"SWITCHML_RTO_MIN", "0.1"},
                      {"SWITCHML_RTO_MAX", "60000"},
                      {"SWITCHML_CONGESTION_CONTROL", "off"},
                      {"SWITCHML_METRICS", "/var/lib/metrics"},
                      {"SWITCHML_LOG_LEVEL", "debug"},
                      {"SWITCHML_FAULTS", "seed=3,send_loss=0.25,corrupt=1e-3"}});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->switch_address, "10.0.0.1:5");
  EXPECT_EQ(config->transport, "udp");
  EXPECT_EQ(config->encryption, Encryption::kOn);
  EXPECT_EQ(config->switch_key_file, "/etc/switch.key");
  EXPECT_EQ(config->interface, "eth7");
  EXPECT_EQ(config->rdma_device, "mlx5_0:1:3");
  EXPECT_EQ(config->rdma_traffic_class, 104);
  EXPECT_EQ(config->rdma_service_level, 3);
  EXPECT_EQ(config->payload_bytes, 8192U);
  EXPECT_EQ(config->slots, 4096);
  EXPECT_EQ(config->arena_mib, 65536U);
  EXPECT_EQ(config->pinned_mib, 64);
  EXPECT_TRUE(config->blocking_wait);
  EXPECT_EQ(config->shards, 16);
  EXPECT_EQ(config->kernels, "scalar");
  EXPECT_EQ(config->affinity, "0-3,8");
  EXPECT_EQ(config->connect_timeout, milliseconds(500));
  EXPECT_EQ(config->slow_warning, seconds(86400));
  EXPECT_EQ(config->rto_min, microseconds(100));
  EXPECT_EQ(config->rto_max, seconds(60));
  EXPECT_FALSE(config->congestion_control);
  EXPECT_EQ(config->metrics, "/var/lib/metrics");
  EXPECT_EQ(config->log_level, LogLevel::kDebug);
  EXPECT_EQ(config->faults, "seed=3,send_loss=0.25,corrupt=1e-3");
  const std::string line = describe(config.value());
  for (const char* part : {"switch=10.0.0.1:5 (SWITCHML_SWITCH)", "payload=8192 (SWITCHML_PAYLOAD)", "transport=udp ",
                           "connect_timeout=0.5 (SWITCHML_CONNECT_TIMEOUT)", "log_level=debug", "rto_min=0.1 "}) {
    EXPECT_TRUE(contains(line, part)) << part << " in " << line;
  }
}

TEST(Config, OptionsWinOverTheEnvironment) {
  auto config = load({{"SWITCHML_SHARDS", "4"}, {"SWITCHML_SLOTS", "8"}}, {{"shards", "2"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->shards, 2);
  EXPECT_EQ(config->slots, 8);
}

TEST(Config, AnOptionMayBeSpelledAsItsVariableButNotTwice) {
  auto config = load({}, {{"SWITCHML_SHARDS", "2"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->shards, 2);
  EXPECT_FALSE(load({}, {{"SWITCHML_SHARDS", "2"}, {"shards", "2"}}).ok());
}

TEST(Config, AnEmptyVariableIsUnset) {
  auto config = load({{"SWITCHML_SHARDS", ""}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->shards, 1);
  EXPECT_FALSE(load({}, {{"shards", ""}}).ok());
}

TEST(Config, AControllerAndASwitchExcludeEachOther) {
  const auto config = load({{"SWITCHML_CONTROLLER", "c:1"}}, {{"switch", "s:2"}});
  ASSERT_FALSE(config.ok());
  EXPECT_TRUE(contains(config.status().message(),
                       "SWITCHML_CONTROLLER=\"c:1\" is not allowed: use only one of SWITCHML_CONTROLLER and switch"))
      << config.status().message();
  EXPECT_TRUE(load({{"SWITCHML_CONTROLLER", "c:1"}, {"SWITCHML_SWITCH", ""}}).ok());
}

TEST(Config, MemoryExcludesWhatOnlyASwitchHas) {
  const std::tuple<const char*, const char*, const char*> others[] = {
      {"SWITCHML_SWITCH", "s:1", "auto, udp, tcp or rdma"},
      {"SWITCHML_CONTROLLER", "c:1", "auto, udp or rdma"},
      {"SWITCHML_FAULTS", "send_loss=0.1", "auto, udp or tcp"}};
  for (const auto& [other, value, instead] : others) {
    for (const auto& [name, config] :
         {std::pair("SWITCHML_TRANSPORT", load({{other, value}, {"SWITCHML_TRANSPORT", "shm"}})),
          std::pair("transport", load({{other, value}}, {{"transport", "shm"}}))}) {
      ASSERT_FALSE(config.ok()) << name << " and " << other;
      EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
      const std::string& message = config.status().message();
      EXPECT_EQ(message.find(name + std::string("=\"shm\" is not allowed")), 0U) << message;
      EXPECT_TRUE(contains(message, std::string("use ") + instead + " together with " + other)) << message;
    }
    for (const char* transport : {"auto", "udp"}) {
      const auto config = load({{other, value}, {"SWITCHML_TRANSPORT", transport}});
      ASSERT_TRUE(config.ok()) << config.status().message();
      EXPECT_EQ(config->transport, transport);
    }
    const auto alone = load({{other, ""}, {"SWITCHML_TRANSPORT", "shm"}});
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    EXPECT_EQ(alone->transport, "shm");
    EXPECT_TRUE(load({{other, value}}, {{"transport", "shm"}, {other, ""}}).ok()) << "an option empties the variable";
  }
}

// A controller's switches know datagrams only.
TEST(Config, TcpExcludesAController) {
  const auto config = load({{"SWITCHML_CONTROLLER", "c:1"}, {"SWITCHML_TRANSPORT", "tcp"}});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().message(),
            "SWITCHML_TRANSPORT=\"tcp\" is not allowed: use auto, udp or rdma together with SWITCHML_CONTROLLER");
  for (const auto& [other, value] : {std::pair("SWITCHML_SWITCH", "s:1"), std::pair("SWITCHML_FAULTS", "send_loss=0.1"),
                                     std::pair("SWITCHML_PRECISION", "integer")}) {
    EXPECT_TRUE(load({{other, value}}, {{"transport", "tcp"}}).ok()) << other;
  }
}

TEST(Config, PrecisionSaysWhetherSoftwareAddsAsAChipDoes) {
  const auto precision = [](const Map& variables, const Map& options = {}) {
    return load(variables, options)->precision;
  };
  EXPECT_EQ(precision({}), Precision::kAuto);
  EXPECT_EQ(precision({{"SWITCHML_PRECISION", "auto"}}), Precision::kAuto);
  EXPECT_EQ(precision({{"SWITCHML_PRECISION", "integer"}}), Precision::kInteger);
  EXPECT_EQ(precision({{"SWITCHML_PRECISION", "integer"}, {"SWITCHML_TRANSPORT", "udp"}}), Precision::kInteger);
  EXPECT_EQ(precision({{"SWITCHML_PRECISION", "integer"}}, {{"precision", "auto"}}), Precision::kAuto);
  const auto exact = load({{"SWITCHML_PRECISION", "exact"}}, {{"transport", "shm"}});
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  EXPECT_EQ(exact->precision, Precision::kExact);
  EXPECT_TRUE(load({{"SWITCHML_PRECISION", "exact"}, {"SWITCHML_CONTROLLER", "c:1"}}, {}).ok());
  const auto memory = load({{"SWITCHML_PRECISION", "integer"}}, {{"transport", "shm"}});
  ASSERT_FALSE(memory.ok()) << "memory adds exactly";
  EXPECT_TRUE(contains(memory.status().message(), "use auto, udp, tcp or rdma together with SWITCHML_PRECISION"))
      << memory.status().message();
}

TEST(Config, ATokenIsNeverShown) {
  const auto config = load({{"SWITCHML_CONTROLLER", "c:1"}, {"SWITCHML_CONTROLLER_TOKEN", "s3cret"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->controller_token, "s3cret");
  EXPECT_TRUE(contains(describe(config.value()), "controller_token=hidden (SWITCHML_CONTROLLER_TOKEN)"));
  EXPECT_FALSE(contains(describe(config.value()), "s3cret"));
  for (const auto& other : {std::make_pair("SWITCHML_CONTROLLER_TOKEN_FILE", "f"),
                            std::make_pair("SWITCHML_CONTROLLER_TOKEN", "s3cret with blanks")}) {
    const auto bad = load({{"SWITCHML_CONTROLLER_TOKEN", "s3cret"}, other}, {{"controller_token", "s3cret b"}});
    ASSERT_FALSE(bad.ok());
    EXPECT_FALSE(contains(bad.status().message(), "s3cret")) << bad.status().message();
    EXPECT_TRUE(contains(bad.status().message(), "hidden")) << bad.status().message();
  }
  EXPECT_FALSE(load({{"SWITCHML_CONTROLLER_TOKEN", "a"}, {"SWITCHML_CONTROLLER_TOKEN_FILE", "f"}}).ok());
}

TEST(Config, ACertificateNeedsItsKeyAndAnAuthority) {
  using Variables = std::map<std::string, std::string>;
  const Variables whole = {
      {"SWITCHML_CONTROLLER_CA", "ca"}, {"SWITCHML_CONTROLLER_CERT", "cert"}, {"SWITCHML_CONTROLLER_KEY", "key"}};
  const auto config = load(whole);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->controller_ca + config->controller_cert + config->controller_key, "cacertkey");
  EXPECT_TRUE(contains(describe(config.value()), "controller_key=key (SWITCHML_CONTROLLER_KEY)"));
  const std::pair<const char*, const char*> cases[] = {
      {"SWITCHML_CONTROLLER_CA", "SWITCHML_CONTROLLER_CERT=\"cert\" is not allowed: use it together with "},
      {"SWITCHML_CONTROLLER_CERT", "SWITCHML_CONTROLLER_KEY=\"key\" is not allowed: use it together with "},
      {"SWITCHML_CONTROLLER_KEY", "SWITCHML_CONTROLLER_CERT=\"cert\" is not allowed: use it together with "}};
  for (const auto& [missing, message] : cases) {
    Variables variables = whole;
    variables.erase(missing);
    const auto bad = load(variables);
    ASSERT_FALSE(bad.ok()) << missing;
    EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(bad.status().message(), message + std::string(missing) + ", which is not set");
  }
  EXPECT_FALSE(load(whole, {{"controller_key", ""}}).ok()) << "an option that empties the variable";
  EXPECT_TRUE(load(whole, {{"controller_key", ""}, {"controller_cert", ""}}).ok());
}

TEST(Config, UnknownOptionsAreErrorsThatListTheKnownOnes) {
  for (const char* name : {"payloads", "SWITCHML_PAYLOADS", "PAYLOAD", ""}) {
    auto config = load({}, {{name, "256"}});
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(contains(config.status().message(), "\"" + std::string(name) + "\"")) << config.status().message();
    EXPECT_TRUE(contains(config.status().message(), "payload, slots")) << config.status().message();
  }
}

struct BadValue {
  const char* name;
  const char* value;
  const char* allowed;
};

class BadValues : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadValues, NameValueAndWhatIsAllowed) {
  const BadValue bad = GetParam();
  std::string variable = "SWITCHML_";
  for (const char* p = bad.name; *p != '\0'; ++p) variable += static_cast<char>(std::toupper(*p));
  for (const auto& [written, config] : {std::pair(variable, load({{variable, bad.value}})),
                                        std::pair(std::string(bad.name), load({}, {{bad.name, bad.value}}))}) {
    ASSERT_FALSE(config.ok()) << written << "=" << bad.value;
    EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
    const std::string& message = config.status().message();
    EXPECT_EQ(message.find(written + "=\"" + bad.value + "\""), 0U) << message;
    EXPECT_TRUE(contains(message, bad.allowed)) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Config, BadValues,
    ::testing::Values(
        BadValue{"switch", "10.0.0.1:port", "ADDRESS:PORT or ADDRESS"},
        BadValue{"switch", "0.0.0.0", "no wildcard one"}, BadValue{"switch", "s:1,", "commas between them"},
        BadValue{"switch", "s:1,t*0", "*WEIGHT (1 to 1000)"},
        BadValue{"transport", "carrier-pigeon", "auto, shm, udp, tcp or rdma"},
        BadValue{"transport", "SHM", "auto, shm, udp, tcp or rdma"},
        BadValue{"precision", "double", "auto, integer or exact"}, BadValue{"payload", "255", "or of 1024"},
        BadValue{"payload", "257", "auto, or 256, 512"}, BadValue{"payload", "1500", "of 128 from 1024 to 2048"},
        BadValue{"payload", "65536", "up to 64512"}, BadValue{"payload", "8k", "a multiple of"},
        BadValue{"payload", "-256", "a multiple of"}, BadValue{"payload", "2176", "or of 1024"},
        BadValue{"payload", "0", "auto"}, BadValue{"payload", "99999999999999999999999", "64512"},
        BadValue{"arena", "65537", "0 to 65536"}, BadValue{"pinned_memory", "-1", "0 to 65536"},
        BadValue{"slots", "3", "4 to 4096"}, BadValue{"slots", "4097", "4 to 4096"}, BadValue{"shards", "0", "1 to 16"},
        BadValue{"shards", "17", "1 to 16"}, BadValue{"shards", " 2", "1 to 16"}, BadValue{"kernels", "sse9", "avx512"},
        BadValue{"affinity", "near", "off, or a list of processors (0-3,8; numbers below 8192)"},
        BadValue{"affinity", "3-1", "a list"}, BadValue{"affinity", "0,", "a list"},
        BadValue{"affinity", "8192", "a list"}, BadValue{"connect_timeout", "0.09", "0.1 to 3600"},
        BadValue{"connect_timeout", "3601", "0.1 to 3600"}, BadValue{"connect_timeout", "nan", "seconds"},
        BadValue{"connect_timeout", "1s", "seconds"}, BadValue{"rto_min", "0", "0.1 to 60000"},
        BadValue{"rto_min", "201", "at most rto_max, which is 200"}, BadValue{"rto_max", "60001", "0.1 to 60000"},
        BadValue{"rto_max", "1", "at least rto_min, which is 5"}, BadValue{"congestion_control", "on", "cubic or off"},
        BadValue{"metrics", "9400", "ADDRESS:PORT"}, BadValue{"metrics", "folder", "begins with /"},
        BadValue{"log_level", "loud", "debug, info"}, BadValue{"controller", "c:99999", "ADDRESS:PORT or ADDRESS"},
        BadValue{"controller", "::1", "an IPv6 address in brackets"}, BadValue{"faults", "send_loss=1.5", "0 to 1"},
        BadValue{"faults", "loss=0.1", "send_loss"}, BadValue{"faults", "send_loss", "send_loss"},
        BadValue{"faults", "send_loss=0.1,send_loss=0.2", "NAME=VALUE"}, BadValue{"faults", "seed=-1", "seed"},
        BadValue{"faults", "seed=1,", "NAME=VALUE"}, BadValue{"faults", ",", "NAME=VALUE"}));

TEST(Config, NoValueIsTooLongForTheOtherRanks) {
  EXPECT_TRUE(load({{"SWITCHML_SWITCH", std::string(16384, 's')}}).ok());
  const auto longer = load({{"SWITCHML_SWITCH", std::string(16385, 's')}});
  ASSERT_FALSE(longer.ok());
  EXPECT_TRUE(contains(longer.status().message(), "(16385 bytes) is not allowed: use at most 16384 bytes"));
}

TEST(Config, FaultsAreNamesAndValues) {
  const auto faults = parse_faults("seed=7,send_loss=0.01,receive_loss=0.02,duplicate=0.03,delay=0.04,corrupt=0.05");
  ASSERT_TRUE(faults.has_value());
  EXPECT_EQ(faults->size(), 6U);
  EXPECT_EQ(faults->at("seed"), 7.0);
  EXPECT_EQ(faults->at("delay"), 0.04);
  ASSERT_TRUE(parse_faults("").has_value());
  EXPECT_TRUE(parse_faults("")->empty());
}

TEST(Config, TheProcessEnvironmentIsRead) {
  ASSERT_EQ(setenv("SWITCHML_CONFIG_TEST", "x", 1), 0);
  EXPECT_EQ(process_environment()("SWITCHML_CONFIG_TEST"), "x");
  unsetenv("SWITCHML_CONFIG_TEST");
  EXPECT_FALSE(process_environment()("SWITCHML_CONFIG_TEST").has_value());
}

TEST(UnknownVariables, AreTheOnesThatNobodyReads) {
  const std::vector<std::string> unknown =
      unknown_variables({"PATH", "SWITCHML_SLOT", "SWITCHML_SLOTS", "SWITCHML_", "SWITCHML_TEST_BACKEND",
                         "SWITCHML_BUILD_DIR", "SWITCHML_GTESTS", "XSWITCHML_SLOT", "SWITCHML_payload"});
  EXPECT_EQ(unknown, (std::vector<std::string>{"SWITCHML_SLOT", "SWITCHML_", "SWITCHML_payload"}));
}

TEST(ProcessVariables, HoldTheNamesOfTheEnvironment) {
  ASSERT_EQ(setenv("SWITCHML_TEST_NAME", "a=b", 1), 0);
  const std::vector<std::string> names = process_variables();
  EXPECT_NE(std::find(names.begin(), names.end(), "SWITCHML_TEST_NAME"), names.end());
  unsetenv("SWITCHML_TEST_NAME");
}

}  // namespace
}  // namespace switchml
