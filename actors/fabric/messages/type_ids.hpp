// The id of every payload and atom of the fabric. Every program that starts actors registers them in this order.
#pragma once

#include <caf/type_id.hpp>

#include "actors/fabric/messages/blobs.hpp"
#include "actors/fabric/messages/calls.hpp"
#include "actors/fabric/messages/conversations.hpp"
#include "actors/fabric/messages/links.hpp"
#include "actors/fabric/messages/processes.hpp"
#include "actors/fabric/messages/terminals.hpp"
#include "actors/fabric/messages/watch.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(swarm_fabric, caf::id_block::swarm_store::end)
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::call_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::batch_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::watch_poll_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::watch_page_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::wait_request_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::activity_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::start_request_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::child_info_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::keeper_news_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::pty_read_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::pty_chunk_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::pty_info_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::spawn_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::pty_input_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_slice_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::link_news_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::link_request_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::link_response_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::cluster_view_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::cluster_node_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::principal_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::graph_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::any_short_call_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::pty_change_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_question_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_state_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_frames_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_reading_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_pages_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::conversation_poll_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::conversation_news_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::blob_keeping_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::blob_upload_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::blob_kept_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::blob_reading_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::blob_page_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_ageing_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::log_hello_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::scope_locks_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::lock_case_ptr))
  CAF_ADD_TYPE_ID(swarm_fabric, (swarm::lock_verdict_ptr))
  CAF_ADD_ATOM(swarm_fabric, swarm, attach_atom, "attach")
  CAF_ADD_ATOM(swarm_fabric, swarm, boot_atom, "boot")
  CAF_ADD_ATOM(swarm_fabric, swarm, child_atom, "child")
  CAF_ADD_ATOM(swarm_fabric, swarm, gate_atom, "gate")
  CAF_ADD_ATOM(swarm_fabric, swarm, gone_atom, "gone")
  CAF_ADD_ATOM(swarm_fabric, swarm, list_atom, "list")
  CAF_ADD_ATOM(swarm_fabric, swarm, log_atom, "log")
  CAF_ADD_ATOM(swarm_fabric, swarm, pty_atom, "pty")
  CAF_ADD_ATOM(swarm_fabric, swarm, resize_atom, "resize")
  CAF_ADD_ATOM(swarm_fabric, swarm, forget_atom, "forget")
  CAF_ADD_ATOM(swarm_fabric, swarm, abort_atom, "abort")
  CAF_ADD_ATOM(swarm_fabric, swarm, reload_atom, "reload")
CAF_END_TYPE_ID_BLOCK(swarm_fabric)
