// The memory a kernel gets for its arguments: copies that end where a page ends, between pages that
// nobody may touch. What is constant cannot be written; what began between two multiples of sixteen
// bytes does so again, and what lies inside of another argument lies inside of its copy.
#pragma once
#include "grid.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace emulation {

const size_t page = sysconf(_SC_PAGESIZE);
constexpr int poison = 0xff;  // NaN in every format

class Guards {
 public:
  Guards() = default;
  Guards(const Guards&) = delete;
  ~Guards() {
    for (const Copy& one : copies)
      if (one.map) munmap(one.map, one.mapped);
  }
  // The values to call the kernel with.
  std::vector<unsigned long long> values;

  void place(const Body& body, const Argument* given, int count) {
    if (count != body.count) fail("the kernel has %d parameters and was given %d", body.count, count);
    for (int i = 0; i < count; i++) {
      const Parameter& wanted = body.parameters[i];
      const bool absent = wanted.width && !given[i].value && !given[i].width;
      if (!absent && given[i].width != wanted.width)
        fail("argument %d has elements of %u bytes, the kernel's of %u", i, given[i].width,
             wanted.width);
    }
    copies.resize(count);
    for (int i = 0; i < count; i++) values.push_back(given[i].value);
    std::vector<int> inside(count, -1);
    std::vector<bool> constant(count);
    for (int i = 0; i < count; i++) constant[i] = body.parameters[i].constant;
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count && inside[i] < 0; j++)
        if (i != j && holds(given[j], given[i]) && (j < i || !holds(given[i], given[j])) &&
            !(constant[i] && constant[j])) {
          inside[i] = j;
          constant[j] = false;
        }
    for (int i = 0; i < count; i++)
      if (inside[i] < 0 && body.parameters[i].width && given[i].bytes)
        values[i] = copy(copies[i], given[i], constant[i]);
    for (int i = 0; i < count; i++)
      if (inside[i] >= 0) values[i] = values[inside[i]] + (given[i].value - given[inside[i]].value);
  }
  void copy_back(const Argument* given) const {
    for (size_t i = 0; i < copies.size(); i++)
      if (copies[i].map && !copies[i].constant)
        memcpy(reinterpret_cast<void*>(given[i].value), copies[i].data, copies[i].bytes);
  }
  // Whose guard an address hit, and where.
  std::string blame(const char* at) const {
    char text[200];
    for (size_t i = 0; i < copies.size(); i++) {
      const Copy& one = copies[i];
      if (at < one.map || at >= one.map + one.mapped) continue;
      const long offset = at - one.data, bytes = one.bytes;
      snprintf(text, sizeof(text), "%s argument %zu at byte %ld of %ld",
               offset >= 0 && offset < bytes ? "writes the constant" : "is outside of", i, offset, bytes);
      return text;
    }
    snprintf(text, sizeof(text), "is at address %p", static_cast<const void*>(at));
    return text;
  }

 private:
  struct Copy {
    char *map = nullptr, *data = nullptr;
    size_t mapped = 0, bytes = 0;
    bool constant = false;
  };
  std::vector<Copy> copies;

  static bool holds(const Argument& outer, const Argument& inner) {
    return inner.bytes && outer.value <= inner.value &&
           inner.value + inner.bytes <= outer.value + outer.bytes;
  }
  unsigned long long copy(Copy& one, const Argument& given, bool constant) {
    const size_t spare = (16 - given.value % 16) % 16;
    const size_t inner = (given.bytes + spare + page - 1) / page * page;
    one.mapped = inner + 2 * page;
    one.bytes = given.bytes;
    one.constant = constant;
    one.map = static_cast<char*>(
        mmap(nullptr, one.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    one.data = one.map + page + inner - spare - one.bytes;
    memset(one.map + page, poison, inner);
    memcpy(one.data, reinterpret_cast<const void*>(given.value), one.bytes);
    mprotect(one.map, one.mapped, PROT_NONE);
    mprotect(one.map + page, inner, constant ? PROT_READ : PROT_READ | PROT_WRITE);
    return reinterpret_cast<unsigned long long>(one.data);
  }
};

}  // namespace emulation
