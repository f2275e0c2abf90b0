#include "cc/runtime/object_loader.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tf_disc {
namespace {

// Not in every elf.h.
constexpr uint32_t kRelocGotpcrelx = 41;
constexpr uint32_t kRelocRexGotpcrelx = 42;

// A kernel is some hundred KB. The bound keeps every distance inside a signed
// 32-bit displacement, and rubbish from asking for the whole address space.
constexpr uint64_t kMaxImageBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxAlignment = 4096;
constexpr uint64_t kNotPlaced = std::numeric_limits<uint64_t>::max();

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("kernel object: ", args...));
}

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool UsesGot(uint32_t type) {
  return type == R_X86_64_GOTPCREL || type == kRelocGotpcrelx ||
         type == kRelocRexGotpcrelx;
}

// Where in the mapping a section goes; in this order, each on its own pages.
enum Region { kText, kReadOnly, kWritable, kNumRegions };

Region RegionOf(const Elf64_Shdr& section) {
  if ((section.sh_flags & SHF_EXECINSTR) != 0) return kText;
  return (section.sh_flags & SHF_WRITE) != 0 ? kWritable : kReadOnly;
}

// Nothing unwinds through generated code: unwind tables are left out.
bool IsUnwindTable(const Elf64_Shdr& section, absl::string_view name) {
  return section.sh_type == SHT_X86_64_UNWIND || name == ".eh_frame";
}

// The steps of a load. Reads of the object go through Read or Slice, so that
// no offset is used unchecked; reads copy, as nothing in it is aligned.
class Loader {
 public:
  explicit Loader(absl::string_view object) : object_(object) {}
  ~Loader() {
    if (base_ != nullptr) munmap(base_, image_bytes_);
  }

  absl::Status Load();

  uint8_t* ReleaseBase() { return std::exchange(base_, nullptr); }
  uint64_t image_bytes() const { return image_bytes_; }
  std::map<std::string, void*> TakeFunctions() { return std::move(functions_); }

 private:
  template <typename T>
  absl::Status Read(uint64_t offset, absl::string_view what, T* value) const {
    if (offset > object_.size() || object_.size() - offset < sizeof(T)) {
      return Bad("ends inside ", what, " at offset ", offset, " (",
                 object_.size(), " bytes)");
    }
    std::memcpy(value, object_.data() + offset, sizeof(T));
    return absl::OkStatus();
  }

  // The bytes of a section that has some in the file.
  absl::StatusOr<absl::string_view> Slice(const Elf64_Shdr& section,
                                          absl::string_view what) const {
    if (section.sh_offset > object_.size() ||
        object_.size() - section.sh_offset < section.sh_size) {
      return Bad(what, " lies outside the file (offset ", section.sh_offset,
                 ", size ", section.sh_size, ", file ", object_.size(), ")");
    }
    return object_.substr(section.sh_offset, section.sh_size);
  }

  static absl::StatusOr<std::string> Name(absl::string_view table,
                                          uint64_t offset) {
    if (offset >= table.size()) return Bad("name offset ", offset, " outside");
    const size_t end = table.find('\0', offset);
    if (end == table.npos) return Bad("name at ", offset, " has no end");
    return std::string(table.substr(offset, end - offset));
  }

  absl::Status ReadHeader();
  absl::Status ReadSections();
  absl::Status ReadSymbols();
  absl::Status CollectRelocations();
  absl::Status PlaceSections();
  absl::Status Map();
  absl::Status Relocate();
  absl::Status Protect();
  absl::StatusOr<uint64_t> SymbolAddress(uint64_t index) const;
  std::string SymbolText(uint64_t index) const;

  struct Relocation {
    uint64_t section;  // that is patched
    Elf64_Rela entry;
  };

  const absl::string_view object_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::string> section_names_;
  std::vector<uint64_t> places_;  // offset in the image, or kNotPlaced
  std::vector<Elf64_Sym> symbols_;
  absl::string_view symbol_names_;
  std::vector<Relocation> relocations_;
  std::map<uint64_t, uint64_t> got_;  // symbol -> offset in the image
  uint64_t region_begin_[kNumRegions + 1] = {};
  uint64_t image_bytes_ = 0;
  uint8_t* base_ = nullptr;
  std::map<std::string, void*> functions_;
};

absl::Status Loader::Load() {
  for (const auto step :
       {&Loader::ReadHeader, &Loader::ReadSections, &Loader::ReadSymbols,
        &Loader::CollectRelocations, &Loader::PlaceSections, &Loader::Map,
        &Loader::Relocate, &Loader::Protect}) {
    absl::Status status = (this->*step)();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Loader::ReadHeader() {
  absl::Status status = Read(0, "the ELF header", &header_);
  if (!status.ok()) return status;
  if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) {
    return Bad("not an ELF file");
  }
  if (header_.e_ident[EI_CLASS] != ELFCLASS64 ||
      header_.e_ident[EI_DATA] != ELFDATA2LSB ||
      header_.e_ident[EI_VERSION] != EV_CURRENT) {
    return Bad("not a little-endian ELF64 file");
  }
  if (header_.e_type != ET_REL || header_.e_machine != EM_X86_64) {
    return Bad("expected a relocatable x86-64 object, found type ",
               header_.e_type, " for machine ", header_.e_machine);
  }
  if (header_.e_shentsize != sizeof(Elf64_Shdr)) {
    return Bad("section headers of ", header_.e_shentsize, " bytes");
  }
  return absl::OkStatus();
}

absl::Status Loader::ReadSections() {
  // e_shnum is 16 bits; 0 (an extended count) has no use in a kernel.
  if (header_.e_shnum == 0) return Bad("no sections");
  for (uint64_t i = 0; i < header_.e_shnum; ++i) {
    uint64_t offset = 0;
    if (__builtin_add_overflow(header_.e_shoff, i * sizeof(Elf64_Shdr),
                               &offset)) {
      return Bad("section headers at offset ", header_.e_shoff);
    }
    Elf64_Shdr section;
    absl::Status status = Read(offset, "a section header", &section);
    if (!status.ok()) return status;
    sections_.push_back(section);
  }
  if (header_.e_shstrndx >= sections_.size() ||
      sections_[header_.e_shstrndx].sh_type != SHT_STRTAB) {
    return Bad("section ", header_.e_shstrndx, " does not hold section names");
  }
  absl::StatusOr<absl::string_view> names =
      Slice(sections_[header_.e_shstrndx], "the table of section names");
  if (!names.ok()) return names.status();
  for (const Elf64_Shdr& section : sections_) {
    absl::StatusOr<std::string> name = Name(*names, section.sh_name);
    if (!name.ok()) return name.status();
    section_names_.push_back(*std::move(name));
  }
  return absl::OkStatus();
}

absl::Status Loader::ReadSymbols() {
  const Elf64_Shdr* table = nullptr;
  for (const Elf64_Shdr& section : sections_) {
    if (section.sh_type != SHT_SYMTAB) continue;
    if (table != nullptr) return Bad("two symbol tables");
    table = &section;
  }
  if (table == nullptr) return Bad("no symbol table");
  if (table->sh_entsize != sizeof(Elf64_Sym) ||
      table->sh_size % sizeof(Elf64_Sym) != 0) {
    return Bad("symbols of ", table->sh_entsize, " bytes in a table of ",
               table->sh_size);
  }
  if (table->sh_link >= sections_.size() ||
      sections_[table->sh_link].sh_type != SHT_STRTAB) {
    return Bad("section ", table->sh_link, " does not hold symbol names");
  }
  absl::StatusOr<absl::string_view> names =
      Slice(sections_[table->sh_link], "the table of symbol names");
  if (!names.ok()) return names.status();
  symbol_names_ = *names;
  absl::StatusOr<absl::string_view> bytes = Slice(*table, "the symbol table");
  if (!bytes.ok()) return bytes.status();
  symbols_.resize(bytes->size() / sizeof(Elf64_Sym));
  if (!symbols_.empty()) {
    std::memcpy(symbols_.data(), bytes->data(), bytes->size());
  }
  // Whatever is undefined is refused, used or not: the compiler emits no
  // external call, so that one here is a bug that must not wait for its call.
  for (uint64_t i = 1; i < symbols_.size(); ++i) {
    const uint16_t section = symbols_[i].st_shndx;
    if (section == SHN_UNDEF) {
      // Some assemblers mention it wherever an address is taken from the GOT.
      if (SymbolText(i) == "_GLOBAL_OFFSET_TABLE_") continue;
      return Bad("undefined symbol '", SymbolText(i),
                 "'; a kernel calls nothing but the ABI's imports");
    }
    if (section == SHN_COMMON || section == SHN_XINDEX) {
      return Bad("symbol '", SymbolText(i), "' is common or extended");
    }
    if (section < SHN_LORESERVE && section >= sections_.size()) {
      return Bad("symbol '", SymbolText(i), "' names section ", section, " of ",
                 sections_.size());
    }
  }
  return absl::OkStatus();
}

absl::Status Loader::CollectRelocations() {
  for (uint64_t i = 0; i < sections_.size(); ++i) {
    const Elf64_Shdr& section = sections_[i];
    if (section.sh_type != SHT_RELA && section.sh_type != SHT_REL) continue;
    const uint64_t target = section.sh_info;
    if (target >= sections_.size()) {
      return Bad("relocations for section ", target, " of ", sections_.size());
    }
    if ((sections_[target].sh_flags & SHF_ALLOC) == 0 ||
        IsUnwindTable(sections_[target], section_names_[target])) {
      continue;
    }
    if (section.sh_type == SHT_REL ||
        section.sh_entsize != sizeof(Elf64_Rela) ||
        section.sh_size % sizeof(Elf64_Rela) != 0) {
      return Bad("section '", absl::CHexEscape(section_names_[i]),
                 "' is not a table of relocations with addends");
    }
    absl::StatusOr<absl::string_view> bytes = Slice(section, "relocations");
    if (!bytes.ok()) return bytes.status();
    for (size_t at = 0; at < bytes->size(); at += sizeof(Elf64_Rela)) {
      Relocation relocation;
      relocation.section = target;
      std::memcpy(&relocation.entry, bytes->data() + at, sizeof(Elf64_Rela));
      if (ELF64_R_SYM(relocation.entry.r_info) >= symbols_.size()) {
        return Bad("relocation against symbol ",
                   ELF64_R_SYM(relocation.entry.r_info), " of ",
                   symbols_.size());
      }
      relocations_.push_back(relocation);
    }
  }
  return absl::OkStatus();
}

absl::Status Loader::PlaceSections() {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  places_.assign(sections_.size(), kNotPlaced);
  uint64_t end = 0;
  for (int region = 0; region < kNumRegions; ++region) {
    end = RoundUp(end, page);
    region_begin_[region] = end;
    for (uint64_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& section = sections_[i];
      if ((section.sh_flags & SHF_ALLOC) == 0 || RegionOf(section) != region ||
          IsUnwindTable(section, section_names_[i])) {
        continue;
      }
      const std::string name = absl::CHexEscape(section_names_[i]);
      if (section.sh_type != SHT_PROGBITS && section.sh_type != SHT_NOBITS) {
        return Bad("section '", name, "' has type ", section.sh_type,
                   " (a constructor or a note?)");
      }
      if ((section.sh_flags & SHF_TLS) != 0) {
        return Bad("section '", name, "' is thread-local");
      }
      if ((section.sh_flags & SHF_WRITE) != 0 && region == kText) {
        return Bad("section '", name, "' is writable code");
      }
      const uint64_t align =
          section.sh_addralign == 0 ? 1 : section.sh_addralign;
      if ((align & (align - 1)) != 0 || align > kMaxAlignment) {
        return Bad("section '", name, "' has alignment ", align);
      }
      if (section.sh_size > kMaxImageBytes) {
        return Bad("section '", name, "' has ", section.sh_size, " bytes");
      }
      places_[i] = RoundUp(end, align);
      end = places_[i] + section.sh_size;
      if (end > kMaxImageBytes)
        return Bad("more than ", kMaxImageBytes, " bytes");
    }
    if (region == kReadOnly) {
      for (const Relocation& relocation : relocations_) {
        if (!UsesGot(ELF64_R_TYPE(relocation.entry.r_info))) continue;
        const uint64_t symbol = ELF64_R_SYM(relocation.entry.r_info);
        end = RoundUp(end, sizeof(uint64_t));
        if (got_.emplace(symbol, end).second) end += sizeof(uint64_t);
      }
      if (end > kMaxImageBytes)
        return Bad("more than ", kMaxImageBytes, " bytes");
    }
  }
  image_bytes_ = RoundUp(end, page);
  region_begin_[kNumRegions] = image_bytes_;
  if (image_bytes_ == 0) return Bad("nothing to load");
  return absl::OkStatus();
}

absl::Status Loader::Map() {
  void* mapping = mmap(nullptr, image_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::InternalError(absl::StrCat(
        "cannot map ", image_bytes_, " bytes for a kernel: errno ", errno));
  }
  base_ = static_cast<uint8_t*>(mapping);
  for (uint64_t i = 0; i < sections_.size(); ++i) {
    if (places_[i] == kNotPlaced || sections_[i].sh_type == SHT_NOBITS)
      continue;
    absl::StatusOr<absl::string_view> bytes = Slice(
        sections_[i],
        absl::StrCat("section '", absl::CHexEscape(section_names_[i]), "'"));
    if (!bytes.ok()) return bytes.status();
    if (bytes->empty()) continue;
    std::memcpy(base_ + places_[i], bytes->data(), bytes->size());
  }
  return absl::OkStatus();
}

std::string Loader::SymbolText(uint64_t index) const {
  const Elf64_Sym& symbol = symbols_[index];
  absl::StatusOr<std::string> name = Name(symbol_names_, symbol.st_name);
  // A section's own symbol has no name.
  if (!name.ok() || name->empty()) return absl::StrCat("#", index);
  return absl::CHexEscape(*name);
}

absl::StatusOr<uint64_t> Loader::SymbolAddress(uint64_t index) const {
  const Elf64_Sym& symbol = symbols_[index];
  if (index == 0 || symbol.st_shndx == SHN_UNDEF ||
      symbol.st_shndx >= SHN_LORESERVE) {
    return Bad("symbol '", SymbolText(index), "' is used but has no section");
  }
  const Elf64_Shdr& section = sections_[symbol.st_shndx];
  if (places_[symbol.st_shndx] == kNotPlaced) {
    return Bad("symbol '", SymbolText(index), "' lies in section '",
               absl::CHexEscape(section_names_[symbol.st_shndx]),
               "', which is not loaded");
  }
  if (symbol.st_value > section.sh_size) {
    return Bad("symbol '", SymbolText(index), "' lies at ", symbol.st_value,
               " of a section of ", section.sh_size, " bytes");
  }
  return reinterpret_cast<uint64_t>(base_) + places_[symbol.st_shndx] +
         symbol.st_value;
}

absl::Status Loader::Relocate() {
  for (const auto& slot : got_) {
    absl::StatusOr<uint64_t> address = SymbolAddress(slot.first);
    if (!address.ok()) return address.status();
    std::memcpy(base_ + slot.second, &*address, sizeof(uint64_t));
  }
  for (const Relocation& relocation : relocations_) {
    const Elf64_Rela& entry = relocation.entry;
    const uint32_t type = ELF64_R_TYPE(entry.r_info);
    if (type == R_X86_64_NONE) continue;
    const uint64_t index = ELF64_R_SYM(entry.r_info);
    const Elf64_Shdr& section = sections_[relocation.section];
    const std::string where = absl::StrCat(
        "relocation ", type, " at ", entry.r_offset, " of section '",
        absl::CHexEscape(section_names_[relocation.section]), "'");
    const uint64_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    if (section.sh_type == SHT_NOBITS || section.sh_size < width ||
        entry.r_offset > section.sh_size - width) {
      return Bad(where, " lies outside the section's bytes");
    }
    absl::StatusOr<uint64_t> symbol = SymbolAddress(index);
    if (!symbol.ok()) return symbol.status();
    uint8_t* const place = base_ + places_[relocation.section] + entry.r_offset;
    const uint64_t at = reinterpret_cast<uint64_t>(place);
    // Unsigned, as the arithmetic of the format wraps.
    const uint64_t addend = static_cast<uint64_t>(entry.r_addend);
    uint64_t value = 0;
    switch (type) {
      case R_X86_64_64:
      case R_X86_64_32:
      case R_X86_64_32S:
        value = *symbol + addend;
        break;
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
      case R_X86_64_PC64:
        value = *symbol + addend - at;
        break;
      case R_X86_64_GOTPCREL:
      case kRelocGotpcrelx:
      case kRelocRexGotpcrelx:
        value =
            reinterpret_cast<uint64_t>(base_) + got_.at(index) + addend - at;
        break;
      default:
        return Bad(where, " has a type that kernels do not use");
    }
    if (width == 8) {
      std::memcpy(place, &value, 8);
      continue;
    }
    const int64_t signed_value = static_cast<int64_t>(value);
    const bool fits =
        type == R_X86_64_32
            ? value <= std::numeric_limits<uint32_t>::max()
            : signed_value >= std::numeric_limits<int32_t>::min() &&
                  signed_value <= std::numeric_limits<int32_t>::max();
    if (!fits) {
      return Bad(where, " against '", SymbolText(index),
                 "' does not fit in 32 bits; emit with reloc=pic");
    }
    const uint32_t low = static_cast<uint32_t>(value);
    std::memcpy(place, &low, 4);
  }
  return absl::OkStatus();
}

absl::Status Loader::Protect() {
  constexpr int kProtections[kNumRegions] = {PROT_READ | PROT_EXEC, PROT_READ,
                                             PROT_READ | PROT_WRITE};
  for (int region = 0; region < kNumRegions; ++region) {
    const uint64_t begin = region_begin_[region];
    const uint64_t bytes = region_begin_[region + 1] - begin;
    if (bytes == 0) continue;
    if (mprotect(base_ + begin, bytes, kProtections[region]) != 0) {
      return absl::InternalError(absl::StrCat(
          "cannot protect the pages of a kernel: errno ", errno,
          region == kText ? " (does this system forbid executable memory?)"
                          : ""));
    }
  }
  for (uint64_t i = 1; i < symbols_.size(); ++i) {
    const Elf64_Sym& symbol = symbols_[i];
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
        ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
        symbol.st_shndx >= SHN_LORESERVE ||
        RegionOf(sections_[symbol.st_shndx]) != kText) {
      continue;
    }
    absl::StatusOr<std::string> name = Name(symbol_names_, symbol.st_name);
    if (!name.ok()) return name.status();
    if (symbol.st_value >= sections_[symbol.st_shndx].sh_size) {
      return Bad("function '", SymbolText(i), "' lies outside its section");
    }
    absl::StatusOr<uint64_t> address = SymbolAddress(i);
    if (!address.ok()) return address.status();
    functions_.emplace(*std::move(name), reinterpret_cast<void*>(*address));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const LoadedObject>> LoadedObject::Load(
    absl::string_view object) {
  Loader loader(object);
  absl::Status status = loader.Load();
  if (!status.ok()) return status;
  const int64_t bytes = static_cast<int64_t>(loader.image_bytes());
  std::map<std::string, void*> functions = loader.TakeFunctions();
  return std::unique_ptr<const LoadedObject>(
      new LoadedObject(loader.ReleaseBase(), bytes, std::move(functions)));
}

LoadedObject::LoadedObject(void* base, int64_t mapped_bytes,
                           std::map<std::string, void*> functions)
    : base_(base),
      mapped_bytes_(mapped_bytes),
      functions_(std::move(functions)) {}

LoadedObject::~LoadedObject() {
  munmap(base_, static_cast<size_t>(mapped_bytes_));
}

absl::StatusOr<void*> LoadedObject::FindFunction(absl::string_view name) const {
  const auto found = functions_.find(std::string(name));
  if (found == functions_.end()) {
    return absl::NotFoundError(absl::StrCat("kernel object: no function '",
                                            absl::CHexEscape(name), "'"));
  }
  return found->second;
}

}  // namespace tf_disc
