// chat send, chat resend, chat prompts: what an agent is told, and what became of it.
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"
#include "cli/verbs/chat_verbs.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

namespace {

struct send_options {
  std::string who;
  std::vector<std::string> text, images, files;
  bool from_stdin = false;
  bool steer = false;
};

/// At most one byte more than so many. Throws `failure`.
std::string read_at_most(int fd, std::size_t bytes, const std::string& name) {
  std::string out;
  std::array<char, 65'536> buffer;
  for (;;) {
    const auto n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      throw failure(code::refused, concat({name, " cannot be read: ", std::strerror(errno)}));
    out.append(buffer.data(), static_cast<std::size_t>(n));
    if (n == 0 || out.size() > bytes)
      return out;
  }
}

std::string file_bytes(const std::string& path) {
  // A pipe or a device may never have an end, or nobody who writes.
  const unique_fd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0)
    throw failure(code::refused, concat({path, " cannot be read: ", std::strerror(errno)}));
  if (S_ISDIR(info.st_mode))
    throw failure(code::refused, path + " is a directory");
  if (!S_ISREG(info.st_mode))
    throw failure(code::refused, path + " is no regular file; copy what it has into one");
  auto out = read_at_most(fd.get(), limits::conversation_blob_bytes_max(), path);
  if (out.size() > limits::conversation_blob_bytes_max())
    throw failure(code::refused,
                  concat({path, " is longer than ", byte_count(limits::conversation_blob_bytes_max()), "; name the file in the prompt instead"}));
  return out;
}

/// By what its bytes begin with. Empty: none of the kinds that agents look at.
std::string image_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"))
    return "image/png";
  if (bytes.starts_with("\xff\xd8\xff"))
    return "image/jpeg";
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a"))
    return "image/gif";
  if (bytes.starts_with("RIFF") && bytes.size() > 12 && bytes.substr(8, 4) == "WEBP")
    return "image/webp";
  return {};
}

std::string media_type(std::string_view bytes) {
  if (auto image = image_type(bytes); !image.empty())
    return image;
  if (bytes.starts_with("%PDF-"))
    return "application/pdf";
  return is_utf8(bytes) && bytes.find('\0') == bytes.npos ? "text/plain" : "application/octet-stream";
}

/// Hands the file over.
v1::Attachment attached(const invocation& cli, const v1::Conversation& c, const std::string& file, bool is_image) {
  const auto path = std::filesystem::path{cli.directory()} / file;
  const auto bytes = file_bytes(path.string());
  v1::Attachment out;
  out.set_media_type(is_image ? image_type(bytes) : media_type(bytes));
  if (out.media_type().empty())
    throw failure(code::refused, file + " is no PNG, JPEG, GIF or WebP image; pass it with --file");
  out.set_name(std::string{utf8_prefix(path.filename().string(), limits::attachment_name_bytes_max)});
  v1::WriteBlobRequest head;
  head.set_scope(c.scope());
  head.set_conversation_id(c.id());
  const auto written = cli.node().conversations.write_blob(head, bytes);
  out.set_digest(written.digest());
  out.set_bytes(written.bytes());
  return out;
}

std::string prompt_of(const send_options& o) {
  if (o.from_stdin && !o.text.empty())
    throw usage("chat send takes a text or --stdin");
  auto out = o.from_stdin ? read_at_most(STDIN_FILENO, limits::message_bytes_max(), "standard input") : joined(o.text);
  if (out.size() > limits::message_bytes_max())
    throw failure(code::refused, concat({"the prompt is longer than ", byte_count(limits::message_bytes_max()), "; pass the text with --file"}));
  if (trimmed(out).empty())
    throw usage("chat send needs a text, or --stdin");
  if (!is_utf8(out))
    throw failure(code::refused, "the prompt is not UTF-8; pass the text with --file");
  return out;
}

int send(const invocation& cli, const v1::Conversation& c, const v1::Command& command) {
  const auto reply = cli.execute(command, environment_for(cli, c)).conversation();
  const auto& prompt = reply.prompt();
  const auto& why = reply.conversation().reason();
  const auto state = mcp::prompt_state(prompt.state());
  if (cli.json_wanted())
    cli.io().print({{"prompt", prompt.id()}, {"state", state}, {"reason", mcp::text_or_null(why)}});
  else
    cli.io().line(concat({"prompt ", short_id(prompt.id()), " for ", short_id(c.id()), ": ", state}));
  if (!cli.json_wanted() && !why.empty())
    cli.io().note("it waits: " + why);
  return code::ok;
}

int run_send(invocation& cli, const send_options& o) {
  const auto prompt = prompt_of(o);
  if (o.images.size() + o.files.size() > limits::prompt_attachments_max)
    throw usage(concat({"a prompt takes at most ", limits::prompt_attachments_max, " images and files"}));
  const auto c = conversation_named(cli, o.who);
  auto command = command_for(cli, c);
  auto& body = *command.mutable_send_prompt();
  body.set_conversation_id(c.id());
  body.set_prompt(prompt);
  body.set_steer(o.steer);
  for (const auto& file : o.images)
    *body.add_attachments() = attached(cli, c, file, true);
  for (const auto& file : o.files)
    *body.add_attachments() = attached(cli, c, file, false);
  return send(cli, c, command);
}

// -- prompts -------------------------------------------------------------------------------

json prompt_row(const v1::Prompt& p) {
  auto attachments = json::array();
  for (const auto& a : p.attachments())
    attachments.push_back(mcp::attachment(a));
  return {{"id", p.id()},
          {"state", mcp::prompt_state(p.state())},
          {"reason", mcp::text_or_null(p.reason())},
          {"text", mcp::text_or_null(p.text())},
          {"steer", p.steer()},
          {"attachments", attachments},
          {"created_at", mcp::seconds(p.created_at_ms())},
          {"changed_at", mcp::seconds(p.changed_at_ms())}};
}

std::vector<v1::Prompt> prompts_of(const invocation& cli, const v1::Conversation& c) {
  auto q = cli.query();
  q.set_scope(c.scope());
  q.set_viewer(cli.named_actor_id());
  q.mutable_list_prompts()->set_conversation_id(c.id());
  return all_rows<v1::Prompt>(cli, std::move(q));
}

/// Its agent did not get it, or nobody knows; its words are kept.
bool can_be_sent_again(const v1::Prompt& p) {
  return (p.state() == v1::Prompt::UNKNOWN || p.state() == v1::Prompt::UNDELIVERABLE) && !p.text().empty();
}

/// The one whose id begins so, else the only one. Throws `failure`.
v1::Prompt prompt_to_resend(const invocation& cli, const v1::Conversation& c, const std::string& id) {
  std::vector<v1::Prompt> found;
  for (auto& p : prompts_of(cli, c))
    if (can_be_sent_again(p) && p.id().starts_with(id))
      found.push_back(std::move(p));
  const auto list = concat({"; see: swarmctl chat prompts ", short_id(c.id())});
  if (found.empty())
    throw failure(code::refused,
                  concat({"there is no ", id.empty() ? "prompt" : "such prompt", " that is undeliverable or whose outcome is unknown", list}));
  if (found.size() > 1)
    throw failure(code::refused, concat({found.size(), " prompts can be sent again; name one", list}));
  return found.front();
}

int run_resend(invocation& cli, const std::string& who, const std::string& id) {
  const auto c = conversation_named(cli, who);
  const auto old = prompt_to_resend(cli, c, id);
  auto command = command_for(cli, c);
  auto& body = *command.mutable_send_prompt();
  body.set_conversation_id(c.id());
  body.set_prompt(old.text());
  *body.mutable_attachments() = old.attachments();
  return send(cli, c, command);
}

int run_prompts(invocation& cli, const std::string& who) {
  const auto c = conversation_named(cli, who);
  const auto all = prompts_of(cli, c);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& p : all)
      out.push_back(prompt_row(p));
    cli.io().print(out);
    return code::ok;
  }
  if (all.empty())
    cli.io().line("(no prompts)");
  for (const auto& p : all)
    cli.io().line(concat(
      {"  ", short_id(p.id()), "  ", utc(p.created_at_ms()), "  ", mcp::prompt_state(p.state()), p.reason().empty() ? "" : " (" + p.reason() + ")",
       "  ", p.text().empty() ? "(what was said: swarmctl chat read)" : utf8_prefix(std::string_view{p.text()}.substr(0, p.text().find('\n')), 100),
       can_be_sent_again(p) ? concat({"  (again: swarmctl chat resend ", short_id(c.id()), " ", short_id(p.id()), ")"}) : std::string{}}));
  return code::ok;
}

} // namespace

void build_chat_send(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<send_options>();
  auto* sub = of_conversation(app, "send", "queue a prompt; it becomes a turn of its own", o->who);
  words(*sub, "text", o->text, "the prompt");
  flag(*sub, "--stdin", o->from_stdin, "read the prompt from standard input");
  flag(*sub, "--steer", o->steer, "add the prompt to the open turn instead of the queue");
  option(*sub, "--image", o->images, "an image that goes with the prompt (repeatable)", argument::file);
  option(*sub, "--file", o->files, "a file that goes with the prompt (repeatable)", argument::file);
  on_run(*sub, cli, [o, &cli] { return run_send(cli, *o); });
}

void build_chat_prompts(CLI::App& app, invocation& cli) {
  auto conversation = std::make_shared<std::string>(), prompt = std::make_shared<std::string>();
  auto* again = of_conversation(
    app, "resend", "send a prompt again that is undeliverable, or whose outcome is unknown: then the agent may have acted on it", *conversation);
  option(*again, "prompt", *prompt, "its id or the first characters of it (default: the only such prompt)");
  on_run(*again, cli, [conversation, prompt, &cli] { return run_resend(cli, *conversation, *prompt); });

  auto who = std::make_shared<std::string>();
  auto* sub = of_conversation(app, "prompts", "list its prompts, and what became of each", *who);
  on_run(*sub, cli, [who, &cli] { return run_prompts(cli, *who); });
}

} // namespace swarm::cli
