"""The tables of a ttnn-visualizer report, as ttnn's own importer makes them (`ttnn/graph_report.py`, schema 3.5).

A test compares them with those of the wheel. `tensors` has one column more, `size`, which the visualizer reads where it
is there.
"""

from __future__ import annotations

SCHEMA_VERSION = "3.5"
_RANK = "rank int NOT NULL DEFAULT 0"

_COLUMNS = {
    "devices": (
        "device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int, num_x_compute_cores int, "
        "worker_l1_size int, l1_num_banks int, l1_bank_size int, address_at_first_l1_bank int, "
        "address_at_first_l1_cb_buffer int, num_banks_per_storage_core int, num_compute_cores int, "
        "num_storage_cores int, total_l1_memory int, total_l1_for_tensors int, total_l1_for_interleaved_buffers int, "
        f"total_l1_for_sharded_buffers int, cb_limit int, {_RANK}"
    ),
    "operations": f"operation_id int, name text, duration float, {_RANK}, UNIQUE(operation_id, rank)",
    "operation_arguments": f"operation_id int, name text, value text, {_RANK}",
    "sub_device_managers": (
        f"device_id int, sub_device_manager_id int, {_RANK}, UNIQUE(device_id, sub_device_manager_id, rank)"
    ),
    "sub_devices": (
        f"device_id int, sub_device_manager_id int, sub_device_id int, worker_core_ranges text, {_RANK}, "
        "UNIQUE(device_id, sub_device_manager_id, sub_device_id, rank)"
    ),
    "operation_executions": (
        "execution_id int, operation_id int, device_id int, physical_device_id int, runtime_id int, "
        f"global_call_count int, command_queue_id int, {_RANK}, UNIQUE(execution_id, rank)"
    ),
    "execution_sub_devices": (
        f"execution_id int, device_id int, sub_device_manager_id int, sub_device_id int, {_RANK}, "
        "UNIQUE(execution_id, device_id, sub_device_manager_id, sub_device_id, rank)"
    ),
    "tensors": (
        "tensor_id int, shape text, dtype text, layout text, memory_config text, device_id int, address int, "
        f"buffer_type int, {_RANK}, storage_type text, size int, UNIQUE(tensor_id, rank)"
    ),
    "device_tensors": f"tensor_id int, device_id int, address int, {_RANK}",
    "buffers": (
        "operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, buffer_layout int, "
        f"{_RANK}"
    ),
    "captured_graph": f"operation_id int, captured_graph text, {_RANK}",
    "nodes": f"operation_id int, unique_id int, node_operation_id int, name text, {_RANK}",
    "edges": (
        "operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, sink_input_index int, "
        f"key int, {_RANK}"
    ),
    "report_metadata": "key text UNIQUE, value text",
    "errors": (
        "operation_id int, operation_name text, error_type text, error_message text, stack_trace text, "
        f"timestamp text, {_RANK}"
    ),
    "source_files": "id INTEGER PRIMARY KEY, path text UNIQUE NOT NULL, contents text",
    "stack_traces": f"operation_id int, stack_trace text, source_file_id int REFERENCES source_files(id), {_RANK}",
    "input_tensors": f"operation_id int, input_index int, tensor_id int, {_RANK}",
    "output_tensors": f"operation_id int, output_index int, tensor_id int, {_RANK}",
    "tensor_lifetime": (
        "tensor_id int, producer_operation_id int, last_use_operation_id int, deallocate_operation_id int, "
        "producer_source_file text, producer_source_line int, last_use_source_file text, last_use_source_line int, "
        f"{_RANK}, UNIQUE(tensor_id, rank)"
    ),
    "tensor_consumers": (
        f"tensor_id int, operation_id int, input_index int, {_RANK}, UNIQUE(tensor_id, operation_id, input_index, rank)"
    ),
    "tensor_producers": (
        f"tensor_id int, operation_id int, output_index int, {_RANK}, "
        "UNIQUE(tensor_id, operation_id, output_index, rank)"
    ),
    "local_tensor_comparison_records": (
        "tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float, "
        f"{_RANK}, UNIQUE(tensor_id, rank)"
    ),
    "global_tensor_comparison_records": (
        "tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float, "
        f"{_RANK}, UNIQUE(tensor_id, rank)"
    ),
    "buffer_chunks": (
        "operation_id int, device_id int, address int, bank_id int, core_x int, core_y int, chunk_address int, "
        f"chunk_size int, page_size int, num_pages int, buffer_type int, {_RANK}"
    ),
}
CREATE = tuple(f"CREATE TABLE {name} ({columns})" for name, columns in _COLUMNS.items())
"""Statements that make every table."""
