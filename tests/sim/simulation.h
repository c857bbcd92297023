// One simulation: jobs, switches and a network drawn from a seed, run in virtual time until all jobs are over and
// everything that they held has been given back, or a rule is broken.
#pragma once

#include <memory>
#include <vector>

#include "network.h"
#include "record.h"
#include "sealed_network.h"
#include "switch_node.h"
#include "tenant.h"
#include "tree_controller.h"

namespace switchml::sim {

struct Options {
  bool print = false;      // events, as they happen
  bool plain = false;      // no damage past checksums and no mismatched calls: nothing that needs the witness
  unsigned tolerated = 0;  // broken rules (bits) after which the run goes on
};

class Simulation final : private Carrier {
 public:
  Simulation(uint64_t seed, const Options& options);
  ~Simulation() override;

  /// False if a rule was broken that is not tolerated.
  bool run();
  const Record& record() const { return record_; }

 private:
  void carry(int from, int to, const uint8_t* data, size_t size) override;
  void recycle(std::vector<uint8_t> bytes) override { network_.recycle(std::move(bytes)); }

  void draw_switches();
  void draw_tenants();
  World world();
  Time next() const;
  void turn();
  void deliver_due();
  void deliver(Delivery delivery);
  void pass(Delivery delivery);
  void sweep();
  void kill_switch(int node);
  void revive_switches();
  void strange(int from, int to, const uint8_t* data, size_t size);
  bool damage(std::vector<uint8_t>* bytes);
  bool damage_exact(std::vector<uint8_t>* bytes);
  bool damage_data(const wire::DataPacket& packet, std::vector<uint8_t>* bytes);
  void flip(std::vector<uint8_t>* bytes, size_t word);
  bool all_finished() const;
  void finish();

  const Options options_;
  Record record_;
  Random random_;
  Random chance_;  // The network's.
  Network network_;
  /// Where encrypted frames leave.
  struct Launch final : Carrier {
    explicit Launch(Simulation* of) : simulation(of) {}
    void carry(int from, int to, const uint8_t* data, size_t size) override {
      simulation->network_.send(from, to, data, size);
    }
    void recycle(std::vector<uint8_t> bytes) override { simulation->recycle(std::move(bytes)); }
    Simulation* simulation;
  };
  Launch launch_{this};
  std::unique_ptr<SealedNetwork> sealed_;  // Null: frames are not encrypted.
  bool tree_ = false;
  bool strangers_ = false;
  Duration lease_{};
  softswitch::SwitchOptions switch_options_;
  std::vector<std::unique_ptr<SwitchNode>> switches_;
  std::vector<Time> revive_at_;
  std::unique_ptr<TreeController> controller_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  Time next_sweep_{};
  uint64_t turns_ = 0;
};

}  // namespace switchml::sim
