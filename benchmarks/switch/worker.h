// A simulated worker: keeps contributions in flight through a transport of its own and checks every result.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "wire/packet.h"

namespace switchml::bench {

struct Load {
  Endpoint to;
  int workers = 2;
  size_t payload_bytes = 8192;
  int slots = 0;         // Slots per worker; 0: as many as the switch grants.
  bool reflect = false;  // A reflector, which returns contributions, takes the place of a switch.
};

/// Written by a worker's thread, read by others.
struct Progress {
  std::atomic<uint64_t> packets_sent{0};
  std::atomic<uint64_t> packets_received{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> results{0};  // Verified results, each once.
  std::atomic<uint64_t> repeats{0};  // Packets sent again because nothing came for kPatience.
  std::atomic<bool> failed{false};
};

class Worker {
 public:
  static constexpr Duration kPatience = milliseconds(50);

  /// Opens a socket; an error says why it cannot be had.
  static Result<std::unique_ptr<Worker>> create(const Load& load, int number);

  /// Asks for a session and returns it; with a reflector, makes one up. Only worker 0 does this.
  Result<wire::OpenReply> open();
  /// Joins the session and builds the contributions.
  Status join(const wire::OpenReply& session);
  /// Sends and receives until `stop`, or until a result is wrong: then `failed` and error() are set.
  void run(const std::atomic<bool>& stop);
  Status close();

  const Progress& progress() const { return progress_; }
  const std::string& error() const { return error_; }

 private:
  Worker(const Load& load, int number, std::unique_ptr<Transport> transport)
      : load_(load), number_(number), transport_(std::move(transport)) {}
  Result<std::vector<uint8_t>> ask(const std::vector<uint8_t>& request);
  uint8_t* frame(uint16_t slot) { return frames_ + slot * stride_; }
  void build(uint16_t slot);
  void push(uint16_t slot, bool again);
  bool take(const RxFrame& received);
  bool wrong(const std::string& what);
  void flush();

  const Load load_;
  const int number_;
  std::unique_ptr<Transport> transport_;
  wire::OpenReply session_;
  int slots_ = 0;
  size_t frame_bytes_ = 0;
  size_t stride_ = 0;
  uint8_t* frames_ = nullptr;      // The contribution to each slot's present use.
  std::vector<uint8_t> expected_;  // Payloads of results, one for each pattern.
  std::vector<uint32_t> seq_;      // Sequence number of each slot's present use.
  std::vector<TxFrame> outgoing_;
  Progress progress_;
  std::string error_;
};

}  // namespace switchml::bench
