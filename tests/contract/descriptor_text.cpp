#include "tests/contract/descriptor_text.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

namespace swarm::contract {

namespace pb = google::protobuf;

namespace {

std::string type_of(const pb::FieldDescriptor& f) {
  if (f.is_map())
    return "map";
  if (auto m = f.message_type())
    return m->full_name();
  if (auto e = f.enum_type())
    return e->full_name();
  return f.type_name();
}

std::string label_of(const pb::FieldDescriptor& f) {
  if (f.is_repeated())
    return "repeated";
  return f.has_optional_keyword() ? "optional" : "single";
}

void describe_enum(const pb::EnumDescriptor& e, lines& out) {
  for (int i = 0; i < e.value_count(); ++i)
    out.insert("value " + e.full_name() + "." + e.value(i)->name() + " " + std::to_string(e.value(i)->number()));
}

void describe_message(const pb::Descriptor& m, lines& out) {
  out.insert("message " + m.full_name());
  for (int i = 0; i < m.field_count(); ++i) {
    const auto& f = *m.field(i);
    auto line = "field " + f.full_name() + " " + std::to_string(f.number()) + " " + type_of(f) + " " + label_of(f);
    if (auto oneof = f.real_containing_oneof())
      line += " oneof=" + oneof->name();
    out.insert(line);
  }
  for (int i = 0; i < m.enum_type_count(); ++i)
    describe_enum(*m.enum_type(i), out);
  for (int i = 0; i < m.nested_type_count(); ++i)
    describe_message(*m.nested_type(i), out);
}

} // namespace

void describe(const pb::FileDescriptor& file, lines& out) {
  for (int i = 0; i < file.message_type_count(); ++i)
    describe_message(*file.message_type(i), out);
  for (int i = 0; i < file.enum_type_count(); ++i)
    describe_enum(*file.enum_type(i), out);
  for (int s = 0; s < file.service_count(); ++s)
    for (int i = 0; i < file.service(s)->method_count(); ++i) {
      const auto& m = *file.service(s)->method(i);
      out.insert("rpc " + m.full_name() + (m.client_streaming() ? " stream " : " ") + m.input_type()->full_name() + " -> " +
                 (m.server_streaming() ? "stream " : "") + m.output_type()->full_name());
    }
}

lines describe_set(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  pb::FileDescriptorSet set;
  if (!in || !set.ParseFromIstream(&in))
    throw std::runtime_error("no descriptor set in " + path);
  pb::DescriptorPool pool;
  lines out;
  for (const auto& file : set.file()) {
    auto built = pool.BuildFile(file);
    if (!built)
      throw std::runtime_error(path + " does not describe " + file.name() + " and what it imports");
    // What Protobuf brings along is not ours to publish.
    if (built->package() != "google.protobuf")
      describe(*built, out);
  }
  if (out.empty())
    throw std::runtime_error(path + " holds no messages");
  return out;
}

lines parse(std::string_view text) {
  lines out;
  while (!text.empty()) {
    auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.front() != '#')
      out.emplace(line);
  }
  return out;
}

std::vector<std::string> broken(const lines& baseline, const lines& current) {
  std::vector<std::string> out;
  std::set_difference(baseline.begin(), baseline.end(), current.begin(), current.end(), std::back_inserter(out));
  return out;
}

std::vector<std::string> added(const lines& baseline, const lines& current) { return broken(current, baseline); }

} // namespace swarm::contract
