// The checked-in description of the contract against the .proto files, and the check itself against planted changes.
#include "tests/contract/descriptor_text.hpp"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>

#include <doctest/doctest.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

namespace contract = swarm::contract;
namespace pb = google::protobuf;

namespace {

std::string environment(const char* name) {
  auto value = std::getenv(name);
  REQUIRE_MESSAGE(value != nullptr, std::string{name} << " is not set; run through ctest");
  return value;
}

std::string read(const std::string& path) {
  std::ifstream in{path};
  REQUIRE_MESSAGE(in.good(), path);
  return {std::istreambuf_iterator<char>{in}, {}};
}

// enum Colour { NONE = 0; RED = 1; }
// message Row { string name = 1; repeated uint32 sizes = 2; Colour colour = 3; oneof body { string text = 4; uint64 number = 5; } }
// message Empty {}
// service Shop { rpc Get(Row) returns (Row); rpc Watch(Row) returns (stream Row); }
const char* const planted_text = R"(
name: "planted.proto" package: "p" syntax: "proto3"
enum_type { name: "Colour" value { name: "NONE" number: 0 } value { name: "RED" number: 1 } }
message_type {
  name: "Row"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "sizes" number: 2 label: LABEL_REPEATED type: TYPE_UINT32 }
  field { name: "colour" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".p.Colour" }
  field { name: "text" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "number" number: 5 label: LABEL_OPTIONAL type: TYPE_UINT64 oneof_index: 0 }
  oneof_decl { name: "body" }
}
message_type { name: "Empty" }
service {
  name: "Shop"
  method { name: "Get" input_type: ".p.Row" output_type: ".p.Row" }
  method { name: "Watch" input_type: ".p.Row" output_type: ".p.Row" server_streaming: true }
}
)";

using file_proto = pb::FileDescriptorProto;
using field_proto = pb::FieldDescriptorProto;
using change = std::function<void(file_proto&)>;

contract::lines planted(const change& edit = {}) {
  file_proto file;
  REQUIRE(pb::TextFormat::ParseFromString(planted_text, &file));
  if (edit)
    edit(file);
  pb::DescriptorPool pool;
  auto built = pool.BuildFile(file);
  REQUIRE(built != nullptr);
  contract::lines out;
  contract::describe(*built, out);
  return out;
}

/// What the baseline misses after the change: exactly one line, or none.
std::string breaks(const change& edit) {
  auto lost = contract::broken(planted(), planted(edit));
  REQUIRE(lost.size() <= 1);
  return lost.empty() ? "" : lost.front();
}

pb::DescriptorProto& row(file_proto& f) { return *f.mutable_message_type(0); }
field_proto& field(file_proto& f, int index) { return *row(f).mutable_field(index); }

const std::string name_line = "field p.Row.name 1 string single";

} // namespace

TEST_CASE("nothing of the published contract was removed, renumbered or retyped") {
  auto baseline = contract::parse(read(environment("SWARM_SOURCE_DIR") + "/proto/swarm.desc.txt"));
  auto current = contract::describe_set(environment("SWARM_DESCRIPTOR_SET"));
  REQUIRE(baseline.size() > 500);
  for (const auto& line : contract::broken(baseline, current))
    FAIL_CHECK("published, but no longer in proto/swarm/v1: " << line);
  auto news = contract::added(baseline, current);
  if (!news.empty())
    MESSAGE(news.size() << " additions are not yet published, for instance `" << news.front() << "`: run tools/proto-baseline");
}

TEST_CASE("removing a field breaks the contract") {
  CHECK(breaks([](auto& f) { row(f).mutable_field()->DeleteSubrange(0, 1); }) == name_line);
}

TEST_CASE("reserving the number of a removed field does not make its removal harmless") {
  CHECK(breaks([](auto& f) {
          row(f).mutable_field()->DeleteSubrange(0, 1);
          auto r = row(f).add_reserved_range();
          r->set_start(1);
          r->set_end(2);
        }) == name_line);
}

TEST_CASE("renumbering a field breaks the contract") {
  CHECK(breaks([](auto& f) { field(f, 0).set_number(9); }) == name_line);
}

TEST_CASE("retyping a field breaks the contract") {
  CHECK(breaks([](auto& f) { field(f, 0).set_type(field_proto::TYPE_BYTES); }) == name_line);
  CHECK(breaks([](auto& f) {
          field(f, 2).set_type(field_proto::TYPE_INT32);
          field(f, 2).clear_type_name();
        }) == "field p.Row.colour 3 p.Colour single");
}

TEST_CASE("changing how often a field occurs breaks the contract") {
  CHECK(breaks([](auto& f) { field(f, 1).set_label(field_proto::LABEL_OPTIONAL); }) == "field p.Row.sizes 2 uint32 repeated");
  CHECK(breaks([](auto& f) {
          field(f, 0).set_proto3_optional(true);
          field(f, 0).set_oneof_index(1);
          row(f).add_oneof_decl()->set_name("_name");
        }) == name_line);
}

TEST_CASE("renaming a field breaks the contract") {
  CHECK(breaks([](auto& f) { field(f, 0).set_name("title"); }) == name_line);
}

TEST_CASE("moving a field out of its oneof breaks the contract") {
  CHECK(breaks([](auto& f) { field(f, 4).clear_oneof_index(); }) == "field p.Row.number 5 uint64 single oneof=body");
}

TEST_CASE("removing or renumbering an enum value breaks the contract") {
  CHECK(breaks([](auto& f) { f.mutable_enum_type(0)->mutable_value()->RemoveLast(); }) == "value p.Colour.RED 1");
  CHECK(breaks([](auto& f) { f.mutable_enum_type(0)->mutable_value(1)->set_number(2); }) == "value p.Colour.RED 1");
}

TEST_CASE("removing a message without fields breaks the contract") {
  CHECK(breaks([](auto& f) { f.mutable_message_type()->RemoveLast(); }) == "message p.Empty");
}

TEST_CASE("removing an rpc or changing its signature breaks the contract") {
  const std::string get = "rpc p.Shop.Get p.Row -> p.Row";
  CHECK(breaks([](auto& f) { f.mutable_service(0)->mutable_method()->DeleteSubrange(0, 1); }) == get);
  CHECK(breaks([](auto& f) { f.mutable_service(0)->mutable_method(0)->set_client_streaming(true); }) == get);
  CHECK(breaks([](auto& f) { f.mutable_service(0)->mutable_method(0)->set_input_type(".p.Empty"); }) == get);
  CHECK(breaks([](auto& f) { f.mutable_service(0)->mutable_method(1)->set_server_streaming(false); }) == "rpc p.Shop.Watch p.Row -> stream p.Row");
}

TEST_CASE("additions and rearrangements keep the contract") {
  auto add_field = [](auto& f) {
    auto& more = *row(f).add_field();
    more.set_name("more");
    more.set_number(6);
    more.set_label(field_proto::LABEL_OPTIONAL);
    more.set_type(field_proto::TYPE_BYTES);
  };
  CHECK(breaks(add_field) == "");
  CHECK(contract::added(planted(), planted(add_field)) == std::vector<std::string>{"field p.Row.more 6 bytes single"});
  CHECK(breaks([](auto& f) {
          auto v = f.mutable_enum_type(0)->add_value();
          v->set_name("BLUE");
          v->set_number(2);
        }) == "");
  CHECK(breaks([](auto& f) { f.add_message_type()->set_name("Other"); }) == "");
  CHECK(breaks([](auto& f) {
          auto m = f.mutable_service(0)->add_method();
          m->set_name("Put");
          m->set_input_type(".p.Row");
          m->set_output_type(".p.Empty");
        }) == "");
  CHECK(breaks([](auto& f) { row(f).mutable_field()->SwapElements(0, 1); }) == "");
}

TEST_CASE("comments and blank lines of the checked-in description do not count") {
  CHECK(contract::parse("# head\n\nmessage p.Empty\n# tail") == contract::lines{"message p.Empty"});
  CHECK(contract::parse("message p.Empty") == contract::lines{"message p.Empty"});
  CHECK(contract::parse("").empty());
}

TEST_CASE("a file without descriptors is an error, not an empty contract") {
  CHECK_THROWS_AS(contract::describe_set(environment("SWARM_SOURCE_DIR") + "/README.md"), std::runtime_error);
  CHECK_THROWS_AS(contract::describe_set("/nonexistent"), std::runtime_error);
  CHECK_THROWS_AS(contract::describe_set("/dev/null"), std::runtime_error);
}
