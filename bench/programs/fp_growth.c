// Frequent sets of items by FP-growth, in place of freqmine of PARSEC: fp_growth TRANSACTIONS ITEMS SUPPORT SEED
//
// A prefix tree of all transactions on the heap, node by node, and one for each item under which it is mined: the heap grows to
// hundreds of thousands of nodes, shrinks and grows again. Input is drawn from a generator, the same for the same seed.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    int item;
    long count;
    struct node *parent, *child, *sibling, *alike;
};

struct tree {
    struct node root;
    int items;
    long *support;
    struct node **heads;
};

static uint64_t state;

static uint32_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static void *need(void *memory) {
    if (!memory) {
        fputs("no memory\n", stderr);
        exit(1);
    }
    return memory;
}

static struct tree *planted(int items) {
    struct tree *tree = need(calloc(1, sizeof *tree));
    tree->root.item = -1;
    tree->items = items;
    tree->support = need(calloc(items, sizeof *tree->support));
    tree->heads = need(calloc(items, sizeof *tree->heads));
    return tree;
}

static void cut_down(struct node *node) {
    while (node) {
        struct node *next = node->sibling;
        cut_down(node->child);
        free(node);
        node = next;
    }
}

static void felled(struct tree *tree) {
    cut_down(tree->root.child);
    free(tree->support);
    free(tree->heads);
    free(tree);
}

// Adds a path of ascending items.
static void add(struct tree *tree, const int *path, int length, long count) {
    struct node *at = &tree->root;
    for (int n = 0; n < length; n++) {
        struct node *child = at->child;
        while (child && child->item != path[n]) child = child->sibling;
        if (!child) {
            child = need(malloc(sizeof *child));
            *child = (struct node){path[n], 0, at, NULL, at->child, tree->heads[path[n]]};
            at->child = child;
            tree->heads[path[n]] = child;
        }
        child->count += count;
        tree->support[path[n]] += count;
        at = child;
    }
}

static long found, weight;

static void mine(const struct tree *tree, long support, int depth) {
    int *path = need(malloc(sizeof *path * (tree->items + 1)));
    for (int item = tree->items - 1; item >= 0; item--) {
        if (tree->support[item] < support) continue;
        found++;
        weight += tree->support[item] * (depth + 1);
        // What comes before the item, as often as it comes with it.
        long *together = need(calloc(tree->items, sizeof *together));
        for (struct node *leaf = tree->heads[item]; leaf; leaf = leaf->alike)
            for (struct node *at = leaf->parent; at->item >= 0; at = at->parent) together[at->item] += leaf->count;
        struct tree *under = planted(tree->items);
        for (struct node *leaf = tree->heads[item]; leaf; leaf = leaf->alike) {
            int length = 0;
            for (struct node *at = leaf->parent; at->item >= 0; at = at->parent)
                if (together[at->item] >= support) path[length++] = at->item;
            for (int low = 0, high = length - 1; low < high; low++, high--) {
                int kept = path[low];
                path[low] = path[high];
                path[high] = kept;
            }
            add(under, path, length, leaf->count);
        }
        free(together);
        if (under->root.child) mine(under, support, depth + 1);
        felled(under);
    }
    free(path);
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv) {
    long transactions = argc > 1 ? atol(argv[1]) : 100000;
    int items = argc > 2 ? atoi(argv[2]) : 1000;
    long support = argc > 3 ? atol(argv[3]) : 1000;
    state = (argc > 4 ? strtoull(argv[4], NULL, 0) : 1) * 0x9e3779b97f4a7c15 | 1;
    struct tree *tree = planted(items);
    int path[64];
    for (long n = 0; n < transactions; n++) {
        int length = 4 + draw() % 28;
        // Low numbers are drawn more often.
        for (int k = 0; k < length; k++) path[k] = (int)((uint64_t)(draw() % items) * (draw() % items) / items);
        qsort(path, length, sizeof *path, ascending);
        int kept = 0;
        for (int k = 0; k < length; k++)
            if (!kept || path[kept - 1] != path[k]) path[kept++] = path[k];
        add(tree, path, kept, 1);
    }
    mine(tree, support, 0);
    felled(tree);
    printf("%ld sets, weight %ld\n", found, weight);
    return 0;
}
