// The memory a kernel gets for its arguments: copies that end where a page ends, between pages that
// nobody may touch. What is constant cannot be written; what began between two multiples of sixteen
// bytes does so again. Arguments that overlap, one of which is written, are one copy.
#pragma once
#include "grid.h"

#include <algorithm>
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
    for (int i = 0; i < count; i++) {
      values.push_back(given[i].value);
      if (body.parameters[i].width && given[i].bytes)
        copies[i] = {i, given[i].value, given[i].value + given[i].bytes, body.parameters[i].constant};
    }
    // Arguments that overlap are one memory, unless all of them are constant.
    for (bool again = true; again;) {
      again = false;
      for (Copy& one : copies)
        for (Copy& other : copies)
          if (one.of != other.of && one.begin < other.end && other.begin < one.end &&
              !(one.constant && other.constant)) {
            join(one, other);
            again = true;
          }
    }
    for (int i = 0; i < count; i++)
      if (copies[i].of == i) copy(copies[i]);
    for (int i = 0; i < count; i++)
      if (copies[i].of >= 0) {
        const Copy& whole = copies[copies[i].of];
        values[i] = reinterpret_cast<unsigned long long>(whole.data) + (given[i].value - whole.begin);
      }
  }
  void copy_back() const {
    for (const Copy& one : copies)
      if (one.map && !one.constant)
        memcpy(reinterpret_cast<void*>(one.begin), one.data, one.end - one.begin);
  }
  // Whose guard an address hit, and where.
  std::string blame(const char* at) const {
    char text[200];
    for (size_t i = 0; i < copies.size(); i++) {
      const Copy& one = copies[i];
      if (at < one.map || at >= one.map + one.mapped) continue;
      const long offset = at - one.data, bytes = one.end - one.begin;
      snprintf(text, sizeof(text), "%s argument %zu at byte %ld of %ld",
               offset >= 0 && offset < bytes ? "writes the constant" : "is outside of", i, offset, bytes);
      return text;
    }
    snprintf(text, sizeof(text), "is at address %p", static_cast<const void*>(at));
    return text;
  }

 private:
  struct Copy {
    int of = -1;  // whose copy it is: its own, or that of an argument that it overlaps
    unsigned long long begin = 0, end = 0;
    bool constant = false;
    char *map = nullptr, *data = nullptr;
    size_t mapped = 0;
  };
  std::vector<Copy> copies;

  void join(const Copy& one, const Copy& other) {
    const int keep = std::min(one.of, other.of), gone = std::max(one.of, other.of);
    const unsigned long long begin = std::min(one.begin, other.begin), end = std::max(one.end, other.end);
    for (Copy& each : copies)
      if (each.of == keep || each.of == gone) {
        each.of = keep;
        each.begin = begin;
        each.end = end;
        each.constant = false;
      }
  }
  void copy(Copy& one) {
    const size_t bytes = one.end - one.begin, spare = (16 - one.begin % 16) % 16;
    const size_t inner = (bytes + spare + page - 1) / page * page;
    one.mapped = inner + 2 * page;
    one.map = static_cast<char*>(
        mmap(nullptr, one.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    one.data = one.map + page + inner - spare - bytes;
    memset(one.map + page, poison, inner);
    memcpy(one.data, reinterpret_cast<const void*>(one.begin), bytes);
    mprotect(one.map, one.mapped, PROT_NONE);
    mprotect(one.map + page, inner, one.constant ? PROT_READ : PROT_READ | PROT_WRITE);
  }
};

}  // namespace emulation
