// policy_pointers.cpp - programs that go from block to block: which of them gain when blocks that
// are used lie together (policy_pointers.sh).
//
//   policy_pointers tree COUNT LOOKUPS       a search tree whose nodes have labels that nobody
//   reads policy_pointers map COUNT LOOKUPS        std::map from numbers to texts that nobody reads
//   policy_pointers cache COUNT LOOKUPS      std::unordered_map and std::list: least recently used
//   policy_pointers hospital LEVELS STEPS    queues of patients in villages that are a tree
//   policy_pointers span VERTICES EDGES      a minimum spanning tree by a pairing heap, three times
//
// It prints a sum that depends on all that it did; with NODES in the environment, how many 4 KiB
// pages the nodes of the tree, or the map, lie in.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

uint32_t random_state = 1;
uint32_t draw() {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

std::set<uintptr_t> pages;
bool counts_pages;
void met(const void *block) {
    if (counts_pages) pages.insert(reinterpret_cast<uintptr_t>(block) / 4096);
}

// ---- tree ----

struct node {
    uint32_t key;
    node *less, *more;
    char *label;
};

__attribute__((noinline)) node *new_node() {
    return static_cast<node *>(malloc(sizeof(node)));
}

__attribute__((noinline)) char *new_label() {
    return static_cast<char *>(malloc(sizeof(node)));
}

uint64_t tree(long count, long lookups) {
    node *root = nullptr;
    for (long i = 0; i < count; i++) {
        node *made = new_node();
        *made = {draw(), nullptr, nullptr, new_label()};
        snprintf(made->label, sizeof(node), "label %u", made->key);
        node **to = &root;
        while (*to != nullptr)
            to = (*to)->key < made->key ? &(*to)->more : &(*to)->less;
        *to = made;
        met(made);
    }
    uint64_t sum = 0;
    for (long i = 0; i < lookups; i++) {
        uint32_t key = draw();
        for (node *at = root; at != nullptr && at->key != key;
             at = at->key < key ? at->more : at->less)
            sum += at->key & 1;
    }
    return sum;
}

// ---- map, cache ----

uint64_t map(long count, long lookups) {
    std::map<uint32_t, std::string> texts;
    for (long i = 0; i < count; i++) {
        uint32_t key = draw();
        met(&*texts.emplace(key, std::string(40 + key % 40, 'x')).first);
    }
    uint64_t sum = 0;
    for (long i = 0; i < lookups; i++) {
        auto at = texts.lower_bound(draw());
        if (at != texts.end()) sum += at->first & 1;
    }
    return sum;
}

uint64_t cache(long count, long lookups) {
    struct entry {
        uint32_t key;
        std::string text;
    };
    std::list<entry> order;
    std::unordered_map<uint32_t, std::list<entry>::iterator> of_key;
    uint64_t hits = 0;
    for (long i = 0; i < lookups; i++) {
        uint32_t key = draw() % static_cast<uint32_t>(count) * (draw() % 16 < 12 ? 1 : 2);
        auto found = of_key.find(key);
        if (found != of_key.end()) {
            hits++;
            order.splice(order.begin(), order, found->second);
            continue;
        }
        order.push_front({key, std::string(20 + key % 60, 'y')});
        of_key[key] = order.begin();
        if (of_key.size() <= static_cast<size_t>(count)) continue;
        of_key.erase(order.back().key);
        order.pop_back();
    }
    return hits;
}

// ---- hospital ----

struct village;
struct patient {
    int time, left;
    village *home;
};
struct link {
    link *next, *prev;
    patient *who;
};
struct village {
    village *below[4], *above;
    link waiting, assessed, inside;
    int staff, level;
};

void add(link *queue, patient *who) {
    link *last = queue;
    while (last->next != nullptr)
        last = last->next;
    last->next = static_cast<link *>(malloc(sizeof(link)));
    *last->next = {nullptr, last, who};
}

void remove(link *at) {
    at->prev->next = at->next;
    if (at->next != nullptr) at->next->prev = at->prev;
    free(at);
}

village *new_village(int level, village *above) {
    if (level == 0) return nullptr;
    auto *made = static_cast<village *>(calloc(1, sizeof(village)));
    made->above = above;
    made->level = level;
    made->staff = 1 << (level - 1);
    for (auto &below : made->below)
        below = new_village(level - 1, made);
    return made;
}

uint64_t sent_home;

void step(village *v) {
    if (v == nullptr) return;
    for (village *below : v->below)
        step(below);
    link *next;
    for (link *at = v->inside.next; at != nullptr; at = next) {
        next = at->next;
        if (--at->who->left != 0) continue;
        v->staff++;
        sent_home++;
        free(at->who);
        remove(at);
    }
    for (link *at = v->assessed.next; at != nullptr; at = next) {
        next = at->next;
        patient *who = at->who;
        if (--who->left != 0) continue;
        remove(at);
        bool stays = draw() % 10 != 0 || v->above == nullptr;
        if (!stays) v->staff++;
        who->left = 10;
        add(stays ? &v->inside : &v->above->waiting, who);
    }
    for (link *at = v->waiting.next; at != nullptr; at = next) {
        next = at->next;
        patient *who = at->who;
        who->time++;
        if (v->staff == 0) continue;
        v->staff--;
        who->left = 3;
        remove(at);
        add(&v->assessed, who);
    }
    if (v->level != 1 || draw() % 10 >= 3) return;
    auto *who = static_cast<patient *>(malloc(sizeof(patient)));
    *who = {0, 0, v};
    add(&v->waiting, who);
}

uint64_t hospital(long levels, long steps) {
    village *top = new_village(static_cast<int>(levels), nullptr);
    for (long i = 0; i < steps; i++)
        step(top);
    return sent_home;
}

// ---- spanning tree ----

struct vertex;
struct edge {
    int weight;
    vertex *to;
    edge *next;
};
struct vertex {
    int distance;
    bool done;
    edge *edges;
};
struct entry {
    int distance;
    vertex *of;
    entry *child, *sibling;
};

entry *meld(entry *a, entry *b) {
    if (a == nullptr) return b;
    if (b == nullptr) return a;
    if (b->distance < a->distance) std::swap(a, b);
    b->sibling = a->child;
    a->child = b;
    return a;
}

entry *without_first(entry *heap) {
    entry *pairs = nullptr, *all = nullptr;
    for (entry *at = heap->child; at != nullptr;) {
        entry *a = at, *b = at->sibling;
        at = b == nullptr ? nullptr : b->sibling;
        a->sibling = nullptr;
        if (b != nullptr) b->sibling = nullptr;
        a = meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    while (pairs != nullptr) {
        entry *next = pairs->sibling;
        pairs->sibling = nullptr;
        all = meld(all, pairs);
        pairs = next;
    }
    free(heap);
    return all;
}

entry *new_entry(vertex *of) {
    auto *made = static_cast<entry *>(calloc(1, sizeof(entry)));
    made->distance = of->distance;
    made->of = of;
    return made;
}

void join(vertex *from, vertex *to, int weight) {
    auto *made = static_cast<edge *>(malloc(sizeof(edge)));
    *made = {weight, to, from->edges};
    from->edges = made;
}

uint64_t spanning_tree(const std::vector<vertex *> &vertices, vertex *first) {
    uint64_t sum = 0;
    for (vertex *v : vertices) {
        v->distance = INT32_MAX;
        v->done = false;
    }
    first->distance = 0;
    for (entry *heap = new_entry(first); heap != nullptr;) {
        vertex *v = heap->of;
        heap = without_first(heap);
        if (v->done) continue;
        v->done = true;
        sum += static_cast<uint64_t>(v->distance);
        for (edge *e = v->edges; e != nullptr; e = e->next) {
            if (e->to->done || e->weight >= e->to->distance) continue;
            e->to->distance = e->weight;
            heap = meld(heap, new_entry(e->to));
        }
    }
    return sum;
}

uint64_t span(long count, long edges) {
    std::vector<vertex *> vertices;
    for (long i = 0; i < count; i++)
        vertices.push_back(static_cast<vertex *>(calloc(1, sizeof(vertex))));
    for (long i = 0; i < edges; i++) {
        size_t a = draw() % vertices.size(), b = draw() % vertices.size();
        if (i + 1 < count) {
            b = static_cast<size_t>(i) + 1;
            a %= b;
        }
        int weight = static_cast<int>(draw() % 1000) + 1;
        join(vertices[a], vertices[b], weight);
        join(vertices[b], vertices[a], weight);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++)
        sum += spanning_tree(vertices, vertices[i]);
    return sum;
}

} // namespace

int main(int argc, char **argv) {
    const struct {
        const char *name;
        uint64_t (*run)(long, long);
    } kinds[] = {
        {"tree", tree}, {"map", map}, {"cache", cache}, {"hospital", hospital}, {"span", span}};
    counts_pages = getenv("NODES") != nullptr;
    for (const auto &kind : kinds) {
        if (argc != 4 || strcmp(argv[1], kind.name) != 0) continue;
        printf("%llu\n", static_cast<unsigned long long>(kind.run(atol(argv[2]), atol(argv[3]))));
        if (counts_pages) printf("%zu pages\n", pages.size());
        return 0;
    }
    fprintf(stderr, "usage: policy_pointers tree|map|cache|hospital|span NUMBER NUMBER\n");
    return 2;
}
