// The settings of a worker, in one struct, validated once. Sources, later ones win: defaults, SWITCHML_* environment
// variables, the process group's options (the same names, lower case, without the prefix: {"payload": "8192"}).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

namespace switchml {

/// How sums are added.
enum class Precision : uint8_t {
  kAuto,     ///< "auto": exactly, and rounded once, in memory and in a switch in software; by a chip as integers.
  kInteger,  ///< "integer": as a chip adds, whatever serves: the same bits with a chip and without. Excludes shm.
  kExact,    ///< "exact": rounded once in any layout, or the group does not open.
};
/// As a user writes it.
const char* name_of(Precision precision);

/// Whether frames are encrypted and authenticated.
enum class Encryption : uint8_t {
  kAuto,  ///< "auto": between hosts, where processors are fast at it and the switches take part.
  kOn,    ///< "on": all that leaves a rank but through shared memory, or the group does not open.
  kOff,   ///< "off": nothing is.
};
/// As a user writes it.
const char* name_of(Encryption encryption);

struct Config {
  /// SWITCHML_SWITCH: ADDRESS:PORT of a switch, or several as named_switches() has them (client/switch_address.h);
  /// empty: one host adds in memory, and of several hosts each adds a part.
  std::string switch_address;
  /// SWITCHML_CONTROLLER: ADDRESS:PORT of a switchml-controller, which says where the switches are; empty: none. Not
  /// together with switch_address.
  std::string controller;
  /// SWITCHML_CONTROLLER_TOKEN, or the first line of the file SWITCHML_CONTROLLER_TOKEN_FILE: identifies the caller.
  std::string controller_token;
  std::string controller_token_file;
  /// SWITCHML_CONTROLLER_CA: PEM file of the authorities that vouch for the controller; not empty: TLS.
  std::string controller_ca;
  /// SWITCHML_CONTROLLER_CERT, SWITCHML_CONTROLLER_KEY: PEM files, the certificate by which the controller identifies
  /// the caller, and its key. Both or neither, and with controller_ca only.
  std::string controller_cert;
  std::string controller_key;
  /// SWITCHML_TRANSPORT: "shm" (memory that ranks of one host share), "udp" or "tcp" (through a
  /// switch), or "auto": shm where it can be had, and no switch, controller or faults are asked for; else udp, or tcp
  /// where links are fast (session/agreement.h). shm not together with those, tcp not with a controller.
  std::string transport = "auto";
  /// SWITCHML_SWITCH_KEY_FILE: the file with the key of the switches that are named, or a controller's, as
  /// parse_seal_key() reads it (seal/seal_key.h); empty: they have none.
  std::string switch_key_file;
  /// SWITCHML_ENCRYPTION.
  Encryption encryption = Encryption::kAuto;
  /// SWITCHML_PRECISION.
  Precision precision = Precision::kAuto;
  /// SWITCHML_SIGNIFICANT_BITS: of each term that an integer switch adds to a sum of floats (integer/width.h); 0..24,
  /// nullopt ("auto"): the type's.
  std::optional<int> significant_bits;
  /// SWITCHML_ARENA: MiB in which each rank of a host that shares memory may allocate tensors for all of them to see;
  /// nullopt ("auto"): its part of half of the machine's memory. 0..65536. The first rank's counts.
  std::optional<size_t> arena_mib;
  /// SWITCHML_PINNED_MEMORY: MiB of the host's memory that a group may pin on a rank for tensors of an accelerator;
  /// what is beyond goes through memory that is not pinned. 0..65536.
  int pinned_mib = 256;
  /// SWITCHML_BLOCKING_WAIT: "on": a wait() for tensors of an accelerator blocks the host until they are there; "off":
  /// at the end, while results are copied to the device, the caller's stream alone.
  bool blocking_wait = false;
  /// SWITCHML_INTERFACE: network interface with the address that an embedded switch announces; empty: the one that
  /// reaches the store.
  std::string interface;
  /// SWITCHML_RDMA_DEVICE: card for RDMA, as parse_port_wish() reads it; empty: the one with the address that reaches
  /// switches.
  std::string rdma_device;
  /// SWITCHML_RDMA_TRAFFIC_CLASS, 0..255, and SWITCHML_RDMA_SERVICE_LEVEL, 0..7: how a card marks what it sends.
  int rdma_traffic_class = 0;
  int rdma_service_level = 0;
  /// SWITCHML_PAYLOAD: bytes of payload per packet, a size of base/payload_size.h; 0 ("auto"): the largest that the
  /// path carries.
  size_t payload_bytes = 0;
  /// SWITCHML_SLOTS: slots of a job, 0 ("auto"); 4..4096.
  int slots = 0;
  /// SWITCHML_SHARDS: engine threads of a rank; 1..16.
  int shards = 1;
  /// SWITCHML_AFFINITY: processors of the engine threads: "off", or a list ("0-3,8"; numbers below 8192).
  std::string affinity = "off";
  /// SWITCHML_KERNELS: "auto", or the name of a kernel table ("scalar", "avx2", "avx512", "neon").
  std::string kernels = "auto";
  /// SWITCHML_CONNECT_TIMEOUT: seconds to find and join a switch, once all ranks are there (bounded by the group's
  /// timeout); 0.1..3600.
  Duration connect_timeout = seconds(30);
  /// SWITCHML_FAILURE_TIMEOUT: seconds of silence after which a switch, or another rank's host, is taken for dead;
  /// 1..3600.
  Duration failure_timeout = seconds(10);
  /// SWITCHML_SLOW_WARNING: seconds that a call waits for a rank, or a switch, before the log names it; 1..86400.
  Duration slow_warning = seconds(30);
  /// SWITCHML_ON_SWITCH_FAILURE: whether hosts add in the place of a lost switch ("fallback"), or every call
  /// fails ("error").
  bool fallback = false;
  /// SWITCHML_RTO_MIN / SWITCHML_RTO_MAX: bounds of the retransmission timeout in milliseconds; 0.1..60000, min <= max.
  Duration rto_min = milliseconds(5);
  Duration rto_max = milliseconds(200);
  /// SWITCHML_CONGESTION_CONTROL: "cubic", a window over UDP that is fair to other flows; "off": all slots are in use.
  bool congestion_control = true;
  /// SWITCHML_METRICS: ADDRESS:PORT, the first of 128 ports of which each process takes one that is free (0: any), or a
  /// folder (it begins with "/") in which each keeps a file; empty: no metrics. The first group's counts.
  std::string metrics;
  /// SWITCHML_LIVE_VIEW: the folder of what `python -m switchml status` reads: "auto", "off", or a path.
  std::string live_view = "auto";
  /// SWITCHML_LOG_LEVEL: debug, info, warning, error, off.
  LogLevel log_level = LogLevel::kWarning;
  /// SWITCHML_FAULTS: for tests: "seed=1,send_loss=0.01,receive_loss=0.01,duplicate=0.01,delay=0.01,corrupt=0.001";
  /// empty: none.
  std::string faults;
};

/// One row of the table of settings, for documentation and messages.
struct SettingInfo {
  std::string name;           // "slots": SWITCHML_SLOTS, pg option "slots"
  std::string allowed;        // "auto, or 4 to 4096"
  std::string default_value;  // "auto"
  std::string help;
};
const std::vector<SettingInfo>& settings();

/// Looks a variable up (nullopt: unset). Production passes process_environment().
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// Builds and validates. An error is kInvalidArgument and names the setting (as the user wrote it), its value and what
/// is allowed; unknown option names are errors too, and so are unknown SWITCHML_* names in `options`.
Result<Config> load_config(const Environment& environment, const std::map<std::string, std::string>& options);

/// The text of `faults` as names and values ("seed", "send_loss", ...); nullopt if it is not well-formed.
std::optional<std::map<std::string, double>> parse_faults(const std::string& text);

/// Names among `names` that begin with SWITCHML_ but are no setting: typing errors. SWITCHML_BUILD_DIR and
/// SWITCHML_TEST_*, which belong to the build and the tests, are not listed.
std::vector<std::string> unknown_variables(const std::vector<std::string>& names);
/// The names in this process' environment.
std::vector<std::string> process_variables();

/// "payload=8192 (SWITCHML_PAYLOAD) slots=auto ...": the effective configuration on one line; the variable is named
/// where the value is not the default.
std::string describe(const Config& config);

}  // namespace switchml
