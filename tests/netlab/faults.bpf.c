// Faults on the last hop to a host: XDP where it receives, tc where the other end of the veth pair sends to it.
//
// The fate of the n-th datagram is a function of n and of a seed, so that the same numbers are lost in every run.

// clang-format off
#include <linux/bpf.h>  // first: the helpers need its types
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
// clang-format on

#define DONE 0x5a1             // skb->mark of a copy: it has been here
#define LATE (0x20 << 16 | 2)  // skb->priority: class 20:2, which waits until 20:1 is empty

// In the order of faults.py. Chances are out of 2^32; 0 is never.
struct settings {
  // Of the switch, in host order: other traffic is left alone. 0: `lose` takes from all IPv4, `disturb` does nothing.
  __u32 port;
  __u32 seed;
  __u32 lose;
  __u32 copy;
  __u32 hold_back;
};

struct counts {
  __u64 received;  // with those that were lost here
  __u64 lost;
  __u64 copied;  // every second copy is held back
  __u64 held_back;
  __u64 overtaken;  // arrived after a datagram that was sent later
  __u64 sent;
};

#define ONE(NAME, VALUE)              \
  struct {                            \
    __uint(type, BPF_MAP_TYPE_ARRAY); \
    __uint(max_entries, 1);           \
    __type(key, __u32);               \
    __type(value, VALUE);             \
  } NAME SEC(".maps")

ONE(settings, struct settings);
ONE(counts, struct counts);
ONE(newest, __u32);

static __always_inline int chosen(__u64 number, __u32 salt, __u32 chance) {
  __u64 x = number * 0x9e3779b97f4a7c15ull + salt;  // splitmix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return (__u32)(x ^ x >> 31) < chance;
}

// The IPv4 header of a datagram from or to the switch's port (0: of anything), or none.
static __always_inline struct iphdr* datagram(void* data, void* end, const struct settings* set) {
  struct ethhdr* ethernet = data;
  struct iphdr* ip = (void*)(ethernet + 1);
  struct udphdr* udp = (void*)(ip + 1);
  if ((void*)(udp + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP)) return 0;
  if (!set->port) return ip;
  if (ip->protocol != IPPROTO_UDP || ip->ihl != 5) return 0;
  const __u16 port = bpf_htons(set->port);
  return udp->source == port || udp->dest == port ? ip : 0;
}

static __always_inline void note_order(const struct iphdr* ip, __u32* last, struct counts* count) {
  const __u16 number = bpf_ntohs(ip->id);  // given by `disturb`
  if ((__s16)(number - (__u16)*last) < 0) {
    __sync_fetch_and_add(&count->overtaken, 1);
  } else {
    *last = number;
  }
}

SEC("xdp.frags")  // also frames that are larger than a page
int lose(struct xdp_md* context) {
  const __u32 zero = 0;
  const struct settings* set = bpf_map_lookup_elem(&settings, &zero);
  struct counts* count = bpf_map_lookup_elem(&counts, &zero);
  __u32* last = bpf_map_lookup_elem(&newest, &zero);
  if (!set || !count || !last) return XDP_PASS;
  struct iphdr* ip = datagram((void*)(long)context->data, (void*)(long)context->data_end, set);
  if (!ip) return XDP_PASS;
  if (set->port) note_order(ip, last, count);
  if (!chosen(__sync_fetch_and_add(&count->received, 1), set->seed, set->lose)) return XDP_PASS;
  __sync_fetch_and_add(&count->lost, 1);
  return XDP_DROP;
}

// Numbers what leaves, in the identification field of IPv4: who receives it can see what was overtaken.
static __always_inline __u64 stamp(struct __sk_buff* skb, struct iphdr* ip, struct counts* count) {
  const __u64 number = __sync_fetch_and_add(&count->sent, skb->gso_segs > 1 ? skb->gso_segs : 1);
  const __be16 old = ip->id, id = bpf_htons((__u16)number);
  bpf_l3_csum_replace(skb, ETH_HLEN + __builtin_offsetof(struct iphdr, check), old, id, sizeof(id));
  bpf_skb_store_bytes(skb, ETH_HLEN + __builtin_offsetof(struct iphdr, id), &id, sizeof(id), 0);
  return number;
}

SEC("tc")
int disturb(struct __sk_buff* skb) {
  const __u32 zero = 0;
  const struct settings* set = bpf_map_lookup_elem(&settings, &zero);
  struct counts* count = bpf_map_lookup_elem(&counts, &zero);
  if (!set || !count || !set->port || skb->mark == DONE) return TC_ACT_OK;
  struct iphdr* ip = datagram((void*)(long)skb->data, (void*)(long)skb->data_end, set);
  if (!ip) return TC_ACT_OK;
  const __u64 number = stamp(skb, ip, count);
  if (chosen(number, set->seed + 1, set->copy)) {
    skb->mark = DONE;
    if (__sync_fetch_and_add(&count->copied, 1) & 1) skb->priority = LATE;
    bpf_clone_redirect(skb, skb->ifindex, 0);
    skb->priority = 0;
  }
  if (chosen(number, set->seed + 2, set->hold_back)) {
    __sync_fetch_and_add(&count->held_back, 1);
    skb->priority = LATE;
  }
  return TC_ACT_OK;
}

char terms[] SEC("license") = "Apache-2.0";
